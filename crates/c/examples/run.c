/* Runs a program in a fresh sandbox, and prints what came of it.
 *
 *   cc -I crates/c/include crates/c/examples/run.c -L target/release -lbelljar_c -o run
 *   LD_LIBRARY_PATH=target/release ./run
 */
#include <stdio.h>
#include <stdlib.h>

#include "belljar.h"

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        belljar_string_free(error);
        exit(1);
    }
}

/* On the first start this takes a minute or two, and is reported. */
static void on_step(void *context, const char *step) {
    (void)context;
    if (step != NULL) {
        fprintf(stderr, "%s\n", step);
    }
}

static void on_event(void *context, const char *event) {
    unsigned *events = context;
    *events += 1;
    fprintf(stderr, "%s\n", event);
}

int main(void) {
    const belljar_progress progress = {.step = on_step};
    belljar_runtime *runtime;
    check(belljar_runtime_new(NULL, &progress, &runtime));

    unsigned events = 0;
    const belljar_callbacks callbacks = {.context = &events, .event = on_event};
    const char *request = "{\"code\": \"import sys\\nopen('made.txt', 'w').write('from inside')\\n"
                          "print('hello')\\nresult = {'answer': 6 * 7}\", \"timeout\": 10}";
    belljar_outcome *outcome;
    check(belljar_run(runtime, request, &callbacks, &outcome));
    printf("%s\n", belljar_outcome_json(outcome));

    uint8_t *bytes;
    size_t length;
    check(belljar_outcome_read(outcome, "made.txt", &bytes, &length));
    printf("made.txt: %.*s\n", (int)length, (const char *)bytes);
    printf("%s\n", events > 0 ? "events came" : "no events came");

    belljar_bytes_free(bytes, length);
    belljar_outcome_free(outcome);
    belljar_runtime_free(runtime);
    return 0;
}
