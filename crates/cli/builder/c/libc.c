/* Functions of the C library that are not in the artifact, or only under another name.
 *
 * Memory must come from the artifact's own heap, since other code may free it. The guest has one
 * thread: a lock is always free. */
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/* Memory. */

int posix_memalign(void **out, size_t align, size_t size) {
    void *p = aligned_alloc(align, size);
    if (p == NULL) return ENOMEM;
    *out = p;
    return 0;
}
void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }
void *valloc(size_t size) { return aligned_alloc(65536, size); }
void *reallocarray(void *p, size_t count, size_t size) {
    size_t total;
    if (!__builtin_mul_overflow(count, size, &total)) return realloc(p, total);
    errno = ENOMEM;
    return NULL;
}
char *strndup(const char *text, size_t limit) {
    size_t size = strnlen(text, limit);
    char *copy = malloc(size + 1);
    if (copy == NULL) return NULL;
    copy[size] = 0;
    return memcpy(copy, text, size);
}
wchar_t *wcsdup(const wchar_t *text) {
    size_t size = (wcslen(text) + 1) * sizeof *text;
    wchar_t *copy = malloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

/* The end of the interpreter, which the artifact does not offer under its name in C. */

_Noreturn void Py_Exit(int);
_Noreturn void exit(int code) { Py_Exit(code); }

/* Functions which the artifact has under their internal names. */

int __clock_gettime(clockid_t, struct timespec *);
int __getentropy(void *, size_t);
off_t __lseek(int, off_t, int);
FILE *__fdopen(int, const char *);
int __fseeko(FILE *, off_t, int);
off_t __ftello(FILE *);
struct tm *__gmtime_r(const time_t *, struct tm *);
struct tm *__localtime_r(const time_t *, struct tm *);
locale_t __newlocale(int, const char *, locale_t);
locale_t __uselocale(locale_t);
char *__nl_langinfo(int);
size_t __strftime_l(char *, size_t, const char *, const struct tm *, locale_t);
char *__strerror_l(int, locale_t);

int clock_gettime(clockid_t clock, struct timespec *t) { return __clock_gettime(clock, t); }
int getentropy(void *to, size_t size) { return __getentropy(to, size); }
#undef lseek
off_t lseek(int fd, off_t to, int whence) { return __lseek(fd, to, whence); }
FILE *fdopen(int fd, const char *mode) { return __fdopen(fd, mode); }
int fseeko(FILE *f, off_t to, int whence) { return __fseeko(f, to, whence); }
off_t ftello(FILE *f) { return __ftello(f); }
struct tm *gmtime_r(const time_t *t, struct tm *tm) { return __gmtime_r(t, tm); }
struct tm *localtime_r(const time_t *t, struct tm *tm) { return __localtime_r(t, tm); }
locale_t newlocale(int mask, const char *name, locale_t base) {
    return __newlocale(mask, name, base);
}
locale_t uselocale(locale_t locale) { return __uselocale(locale); }
char *nl_langinfo(int item) { return __nl_langinfo(item); }
size_t strftime_l(char *to, size_t n, const char *format, const struct tm *tm, locale_t locale) {
    return __strftime_l(to, n, format, tm, locale);
}
char *strerror_l(int error, locale_t locale) { return __strerror_l(error, locale); }

/* Files. A file's mode is not kept. */

int remove(const char *path) {
    if (unlink(path) == 0) return 0;
    return errno == EISDIR || errno == EPERM ? rmdir(path) : -1;
}
int fchmod(int fd, mode_t mode) { (void)fd; (void)mode; return 0; }
int fchmodat(int fd, const char *path, mode_t mode, int flags) {
    struct stat found;
    (void)mode;
    return fstatat(fd, path, &found, flags);
}
int statvfs(const char *path, struct statvfs *out) {
    (void)path; (void)out;
    errno = ENOSYS;
    return -1;
}
/* C++'s library then copies files by reading and writing. */
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    (void)to; (void)from; (void)at; (void)size;
    errno = EINVAL;
    return -1;
}

/* Sorting with an argument, which the artifact has under its internal name. */
int __qsort_r(void *, size_t, size_t, int (*)(const void *, const void *, void *), void *);
void qsort_r(void *base, size_t count, size_t width,
             int (*compare)(const void *, const void *, void *), void *arg) {
    __qsort_r(base, count, width, compare, arg);
}

/* There is no clock of the processor's time. */
clock_t clock(void) {
    struct timespec t;
    if (__clock_gettime(CLOCK_MONOTONIC, &t) != 0) return (clock_t)-1;
    return t.tv_sec * CLOCKS_PER_SEC + t.tv_nsec / (1000000000 / CLOCKS_PER_SEC);
}

/* Arithmetic which the compiler turns into instructions. */

float sqrtf(float x) { return __builtin_sqrtf(x); }
float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
double copysign(double x, double y) { return __builtin_copysign(x, y); }
float nearbyintf(float x) { return __builtin_nearbyintf(x); }
double nearbyint(double x) { return __builtin_nearbyint(x); }
float rintf(float x) { return __builtin_nearbyintf(x); }
double rint(double x) { return __builtin_nearbyint(x); }

/* Threads: one. */

int pthread_mutex_lock(pthread_mutex_t *m) { (void)m; return 0; }
int pthread_mutex_trylock(pthread_mutex_t *m) { (void)m; return 0; }
int pthread_mutex_unlock(pthread_mutex_t *m) { (void)m; return 0; }
int pthread_rwlock_rdlock(pthread_rwlock_t *l) { (void)l; return 0; }
int pthread_rwlock_wrlock(pthread_rwlock_t *l) { (void)l; return 0; }
int pthread_rwlock_unlock(pthread_rwlock_t *l) { (void)l; return 0; }
int pthread_once(pthread_once_t *once, void (*run)(void)) {
    if (*once == 0) {
        *once = 1;
        run();
    }
    return 0;
}
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg) {
    (void)t; (void)a; (void)run; (void)arg;
    return EAGAIN;
}
int pthread_join(pthread_t t, void **result) { (void)t; (void)result; return ESRCH; }
int pthread_detach(pthread_t t) { (void)t; return ESRCH; }

/* Signals: none arrives, so blocking them changes nothing. */

int sigemptyset(sigset_t *set) { memset(set, 0, sizeof *set); return 0; }
int sigfillset(sigset_t *set) { memset(set, 255, sizeof *set); return 0; }
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    (void)how; (void)set;
    return old == NULL ? 0 : sigemptyset(old);
}

enum { KEYS = 128 };
static struct { char used; const void *value; } keys[KEYS];
int pthread_key_create(pthread_key_t *key, void (*at_exit)(void *)) {
    (void)at_exit; /* the thread does not end */
    for (int i = 0; i < KEYS; i++) {
        if (keys[i].used) continue;
        keys[i].used = 1;
        keys[i].value = NULL;
        *key = (pthread_key_t)(uintptr_t)(i + 1);
        return 0;
    }
    return EAGAIN;
}
int pthread_key_delete(pthread_key_t key) {
    keys[(uintptr_t)key - 1].used = 0;
    return 0;
}
void *pthread_getspecific(pthread_key_t key) { return (void *)keys[(uintptr_t)key - 1].value; }
int pthread_setspecific(pthread_key_t key, const void *value) {
    keys[(uintptr_t)key - 1].value = value;
    return 0;
}

/* An extension has no exit of its own. */
int atexit(void (*run)(void)) { (void)run; return 0; }
int __cxa_atexit(void (*run)(void *), void *arg, void *dso) {
    (void)run; (void)arg; (void)dso;
    return 0;
}
int __cxa_thread_atexit(void (*run)(void *), void *arg, void *dso) {
    (void)run; (void)arg; (void)dso;
    return 0;
}
void *__dso_handle;
