/* A session with a tool: the code calls a function of this program, the session is forked, rewound,
 * and carried over to another runtime by a checkpoint.
 *
 *   cc -I crates/c/include crates/c/examples/session.c -L target/release -lbelljar_c -o session
 *   LD_LIBRARY_PATH=target/release ./session checkpoint.belljar
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "belljar.h"

static const char *const TOOLS =
    "[{\"name\": \"price\", \"description\": \"The latest price of a share.\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"symbol\": {\"type\": \"string\"}}, "
    "\"required\": [\"symbol\"]}}]";

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        belljar_string_free(error);
        exit(1);
    }
}

static void on_call(void *context, belljar_call *call) {
    (void)context;
    char *arguments;
    check(belljar_call_arguments(call, &arguments));
    if (strstr(arguments, "\"ACME\"") != NULL) {
        check(belljar_call_answer(call, "42.5"));
    } else {
        check(belljar_call_fail(call, "there is no such share"));
    }
    belljar_string_free(arguments);
}

static void run(const belljar_session *session, const char *request) {
    belljar_outcome *outcome;
    check(belljar_session_run(session, request, NULL, &outcome));
    printf("%s\n", belljar_outcome_json(outcome));
    belljar_outcome_free(outcome);
}

static void show(const char *title, const belljar_session *session) {
    char *value;
    check(belljar_session_get(session, "x", &value));
    printf("%s: x = %s\n", title, value != NULL ? value : "nothing");
    belljar_string_free(value);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: session CHECKPOINT\n");
        return 2;
    }
    belljar_runtime *runtime;
    check(belljar_runtime_new(NULL, NULL, &runtime));
    const belljar_callbacks callbacks = {.tools = TOOLS, .call = on_call};
    belljar_session *session;
    const char *options = "{\"start\": {\"code\": \"import tools\", \"image\": \"core\"}}";
    check(belljar_session_new(runtime, options, &callbacks, &session));

    run(session, "{\"code\": \"x = tools.price('ACME')\"}");
    run(session, "{\"code\": \"tools.price('NONE')\"}");
    show("session", session);

    belljar_session *fork;
    check(belljar_session_fork(session, &fork));
    check(belljar_session_set(fork, "x", "{\"$\": \"tuple\", \"items\": [1, 2]}"));
    show("fork", fork);
    check(belljar_session_rewind(session, 1));
    show("rewound", session);

    check(belljar_session_checkpoint(fork, argv[1]));
    check(belljar_session_close(fork));
    belljar_session *restored;
    const char *bounds = "{\"id\": \"chosen\", \"lifetime\": 600, \"policy\": \"strict\"}";
    check(belljar_session_restore(runtime, argv[1], bounds, &callbacks, &restored));
    show("restored", restored);
    run(restored, "{\"code\": \"import os\"}");

    belljar_session_free(restored);
    belljar_session_free(fork);
    belljar_session_free(session);
    belljar_runtime_free(runtime);
    return 0;
}
