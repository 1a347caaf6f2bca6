/* Standard streams of the extension's own: the artifact's cannot be found by name. They have no
 * buffers: nothing flushes them at the end of a run. */
#include <stdarg.h>
#include <stdio.h>

FILE *__fdopen(int, const char *);
FILE *own_stdin __asm__("stdin");
FILE *own_stdout __asm__("stdout");
FILE *own_stderr __asm__("stderr");

/* Before the constructors of C++'s streams, which are at 100. */
__attribute__((constructor(99))) static void open_streams(void) {
    own_stdin = __fdopen(0, "r");
    own_stdout = __fdopen(1, "w");
    own_stderr = __fdopen(2, "w");
    if (own_stdout != NULL) setvbuf(own_stdout, NULL, _IONBF, 0);
    if (own_stderr != NULL) setvbuf(own_stderr, NULL, _IONBF, 0);
}

/* The artifact's functions of these names write to its own standard output. */
int vprintf(const char *format, va_list arguments) { return vfprintf(stdout, format, arguments); }
int printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vfprintf(stdout, format, arguments);
    va_end(arguments);
    return written;
}
int putchar(int c) { return fputc(c, stdout); }
int puts(const char *text) {
    return fputs(text, stdout) < 0 || fputc('\n', stdout) < 0 ? EOF : 0;
}
