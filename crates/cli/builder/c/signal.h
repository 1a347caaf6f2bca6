/* The C library's <signal.h> with sets of signals, which it leaves out: WASI has no signals. */
#ifndef BELLJAR_SIGNAL_H
#define BELLJAR_SIGNAL_H

#include_next <signal.h>
#define __NEED_sigset_t
#include <bits/alltypes.h>

#ifndef SIG_BLOCK
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#endif

#ifdef __cplusplus
extern "C" {
#endif

int sigemptyset(sigset_t *);
int sigfillset(sigset_t *);
int pthread_sigmask(int, const sigset_t *, sigset_t *);

#ifdef __cplusplus
}
#endif

#endif
