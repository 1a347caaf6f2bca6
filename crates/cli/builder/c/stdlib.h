/* The C library's <stdlib.h> with a function that it leaves out. */
#ifndef BELLJAR_STDLIB_H
#define BELLJAR_STDLIB_H

#include_next <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

void qsort_r(void *, size_t, size_t, int (*)(const void *, const void *, void *), void *);

#ifdef __cplusplus
}
#endif

#endif
