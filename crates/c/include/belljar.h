/*
 * belljar: runs untrusted Python, and answers with one JSON document.
 *
 * Made from the sources of crates/c; its test says when it is not theirs any more.
 */

#ifndef BELLJAR_H
#define BELLJAR_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface: raised when a program that was compiled for an older one would go
// wrong. Functions and keys of JSON are added without that.
#define BELLJAR_ABI_VERSION 1

// A call of a tool that is to be answered.
typedef struct belljar_call belljar_call;

// A switch that interrupts the runs that it was given to: those that run, and those that begin later.
typedef struct belljar_interrupt belljar_interrupt;

// What a run gave: its outcome, and the files that it left.
typedef struct belljar_outcome belljar_outcome;

// The engine: what all runs and sessions share.
typedef struct belljar_runtime belljar_runtime;

// A session.
typedef struct belljar_session belljar_session;

// Is told what takes long on the first start. All of it zero, or a null pointer in its place, is
// nobody.
typedef struct {
  // Handed to the function.
  void *context;
  // A step has begun, or, when `step` is null, ended. On any thread.
  void (*step)(void *context, const char *step);
} belljar_progress;

// What a run may call, and what may stop it. All of it zero, or a null pointer in its place, is a
// run that calls nothing.
typedef struct {
  // Handed to every function.
  void *context;
  // Something happened in the run: one event of `docs/reference/events.md`, which is only there
  // for the time of the call. Events come in their order, one at a time, on the thread that runs
  // the code; the run goes on when the function returns.
  void (*event)(void *context, const char *event);
  // The tools that the code can call: a JSON array of objects with `name`, `description`,
  // `parameters` (a JSON Schema of the arguments, which are an object), and, if it is to be
  // answered later and maybe in another process, `"deferred": true`.
  const char *tools;
  // The code calls a tool. The call is the function's: it is answered once, by
  // `belljar_call_answer` or `belljar_call_fail`, before the function returns or later, on
  // whichever thread. The run's time goes on. It is called on the thread that runs the code.
  void (*call)(void *context, belljar_call *call);
  // What interrupts the run, or null. It may be freed when the run has begun.
  const belljar_interrupt *interrupt;
} belljar_callbacks;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The name of the tool that is called, for `belljar_string_free`.
//
// # Safety
//
// `call` was handed to the function `call` of the callbacks, and is not answered yet. `name` may be
// written to.
char *belljar_call_name(const belljar_call *call, char **name);

// The arguments of the call: a JSON object, for `belljar_string_free`.
//
// # Safety
//
// As for `belljar_call_name`.
char *belljar_call_arguments(const belljar_call *call, char **arguments);

// Answers the call with a JSON value, and frees it. When the value is not JSON the call has failed.
//
// # Safety
//
// `call` was handed to the function `call` of the callbacks, and is not answered yet.
char *belljar_call_answer(belljar_call *call, const char *value);

// The call has failed, for this reason, which the code is told. Frees the call.
//
// # Safety
//
// As for `belljar_call_answer`.
char *belljar_call_fail(belljar_call *call, const char *reason);

// A switch that was not used yet.
belljar_interrupt *belljar_interrupt_new(void);

// Interrupts the runs, as Ctrl-C would: their outcomes are of the kind `interrupted`. Any thread may
// do it, and nothing happens when `interrupt` is null.
//
// # Safety
//
// `interrupt` is null or was made by `belljar_interrupt_new`, and is not freed yet.
void belljar_interrupt_use(const belljar_interrupt *interrupt);

// Frees the switch; the runs that it was given to keep it.
//
// # Safety
//
// As for `belljar_interrupt_use`.
void belljar_interrupt_free(belljar_interrupt *interrupt);

// The outcome as JSON, as `docs/reference/outcome.md` describes it. It is the outcome's, and there
// until that is freed. Null when `outcome` is.
//
// # Safety
//
// `outcome` is null, or was given by this library and is not freed yet.
const char *belljar_outcome_json(const belljar_outcome *outcome);

// The bytes of a file that the run left, for `belljar_bytes_free`. Those of a session's run are read
// from the session's workspace, as they are now.
//
// # Safety
//
// `outcome` was given by this library and is not freed yet; `path` is text; `bytes` and `length` may
// be written to.
char *belljar_outcome_read(const belljar_outcome *outcome,
                           const char *path,
                           uint8_t **bytes,
                           size_t *length);

// Frees the outcome, with the run's files. A session keeps its own.
//
// # Safety
//
// `outcome` is null, or was given by this library and is not freed yet.
void belljar_outcome_free(belljar_outcome *outcome);

// Starts the engine: milliseconds, and about two minutes on an empty cache, when Python is
// downloaded and compiled. `options` is null or a JSON object with any of `cache`, `wheel`, `bundle`
// and `temp_dir`, which are paths, `bundle_hash`, a SHA-256, `file_memory`, bytes, `concurrency` and `queue`, which
// are numbers of runs.
//
// # Safety
//
// `options` is null or text. `progress` is null or points to a progress, whose function may be called
// for as long as the runtime or one of its sessions lives. `runtime` may be written to.
char *belljar_runtime_new(const char *options,
                          const belljar_progress *progress,
                          belljar_runtime **runtime);

// Frees the runtime. Sessions and outcomes that are not freed keep what they need of it.
//
// # Safety
//
// `runtime` is null, or was given by this library and is not freed yet.
void belljar_runtime_free(belljar_runtime *runtime);

// Runs a request in a fresh sandbox, and waits for it. `request` is the JSON object of
// `docs/schema/request.schema.json`; it may name files of the host.
//
// # Safety
//
// `runtime` was given by this library and is not freed yet; `request` is text; `callbacks` is null or
// as its type says until this returns; `outcome` may be written to.
char *belljar_run(const belljar_runtime *runtime,
                  const char *request,
                  const belljar_callbacks *callbacks,
                  belljar_outcome **outcome);

// Looks at code without running it: a JSON object with `clean`, the `violations` of the policy, and the
// `missing_imports`. `policy` is null, `"open"`, `"strict"` (with the quotes) or the object of a request.
//
// # Safety
//
// `runtime` was given by this library and is not freed yet; `code` is text, `policy` null or text;
// `report` may be written to.
char *belljar_check(const belljar_runtime *runtime,
                    const char *code,
                    const char *policy,
                    char **report);

// Starts a session. `options` is a JSON object with `start`, a request as for `belljar_run` whose
// code runs first and whose image, limits, policy, files and environment are the session's, and any
// of `lifetime` and `idle` in seconds, `fuel` for all runs together, and `history` with `runs` and
// `bytes`. The callbacks' tools are those of every run; its other members are not looked at.
//
// # Safety
//
// `runtime` was given by this library and is not freed yet; `options` is text; `callbacks` is null or
// as its type says, for as long as the session lives; `session` may be written to.
char *belljar_session_new(const belljar_runtime *runtime,
                          const char *options,
                          const belljar_callbacks *callbacks,
                          belljar_session **session);

// Starts a session from a checkpoint, the file `path`. The tools of the callbacks take the place of
// those that it had. `options` is null, or a JSON object with any of `id` and `client`; `mounts`, an
// object with a directory of the host for each place where the session sees one; `lifetime` and `idle`
// in seconds and `fuel`, of each of which the smaller of this and the checkpoint's counts; `policy`, in
// the place of the checkpoint's; and `lease`, an object with `seconds` and, if it is not to be closed,
// `"then": "suspend"`. Whoever wrote a checkpoint chose its limits and its policy.
//
// # Safety
//
// As for `belljar_session_new`; `path` is text, and `options` null or text.
char *belljar_session_restore(const belljar_runtime *runtime,
                              const char *path,
                              const char *options,
                              const belljar_callbacks *callbacks,
                              belljar_session **session);

// Frees the handle. The session itself goes on until it is closed, or its runtime ends with the last
// of its handles.
//
// # Safety
//
// `session` is null, or was given by this library and is not freed yet.
void belljar_session_free(belljar_session *session);

// Ends the session, and what it runs. Its handles are still to be freed.
//
// # Safety
//
// `session` was given by this library and is not freed yet.
char *belljar_session_close(const belljar_session *session);

// The session's id, for `belljar_string_free`.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `id` may be written to.
char *belljar_session_id(const belljar_session *session, char **id);

// Runs a request after those that were asked for before it, and waits for it.
//
// # Safety
//
// As for `belljar_run`, with a session in place of the runtime.
char *belljar_session_run(const belljar_session *session,
                          const char *request,
                          const belljar_callbacks *callbacks,
                          belljar_outcome **outcome);

// Answers the calls of deferred tools for which a run waits, and goes on with it. `answers` is a JSON
// array of objects with `id`, and `answer`, a value, or `error`, a text that the code is told.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `answers` is text; `outcome` may be
// written to.
char *belljar_session_answer(const belljar_session *session,
                             const char *answers,
                             belljar_outcome **outcome);

// Interrupts the run that goes on on another thread, if there is one.
//
// # Safety
//
// `session` was given by this library and is not freed yet.
char *belljar_session_interrupt(const belljar_session *session);

// Starts another session from this one's state and history.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `fork` may be written to.
char *belljar_session_fork(const belljar_session *session, belljar_session **fork);

// Goes back to the state after run `execution`; the beginning is 0.
//
// # Safety
//
// `session` was given by this library and is not freed yet.
char *belljar_session_rewind(const belljar_session *session, uint64_t execution);

// Writes the session to the file `path`, from which any process restores it.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `path` is text.
char *belljar_session_checkpoint(const belljar_session *session, const char *path);

// The value of a global variable in the JSON of `docs/reference/values.md`, for
// `belljar_string_free`; null when there is no such variable.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `name` is text; `value` may be written to.
char *belljar_session_get(const belljar_session *session,
                          const char *name,
                          char **value);

// Sets a global variable to a value in the JSON of `docs/reference/values.md`.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `name` and `value` are text.
char *belljar_session_set(const belljar_session *session, const char *name, const char *value);

// The bytes of a file in the session's workspace, for `belljar_bytes_free`.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `path` is text; `data` and `length` may
// be written to.
char *belljar_session_read(const belljar_session *session,
                           const char *path,
                           uint8_t **data,
                           size_t *length);

// Writes a file into the session's workspace, without a run.
//
// # Safety
//
// `session` was given by this library and is not freed yet; `path` is text; `data` points to `length`
// bytes, or is null when there are none.
char *belljar_session_write(const belljar_session *session,
                            const char *path,
                            const uint8_t *data,
                            size_t length);

// The version of this interface that the library has: compare it with `BELLJAR_ABI_VERSION`.
uint32_t belljar_abi_version(void);

// The version of belljar. It is not to be freed.
const char *belljar_version(void);

// Frees text that a function of this library gave.
//
// # Safety
//
// `text` is null, or was given by this library and not freed yet.
void belljar_string_free(char *text);

// Frees bytes that a function of this library gave.
//
// # Safety
//
// `bytes` and `length` are null and 0, or were given together by this library and not freed yet.
void belljar_bytes_free(uint8_t *bytes, size_t length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BELLJAR_H */
