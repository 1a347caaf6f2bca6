/*
 * belljar: runs untrusted Python, and returns the outcome as a JSON document.
 *
 * Generated from the sources of crates/c, whose test checks that it is up to date.
 */

#ifndef BELLJAR_H
#define BELLJAR_H

#include <stddef.h>
#include <stdint.h>

// Version of this interface, raised on incompatible changes. New functions and JSON keys do not
// raise it.
#define BELLJAR_ABI_VERSION 1

// A call of a tool, to be answered.
typedef struct belljar_call belljar_call;

// A switch that interrupts all current and future runs that use it.
typedef struct belljar_interrupt belljar_interrupt;

// The result of a run: its outcome and its files.
typedef struct belljar_outcome belljar_outcome;

// The engine, shared by runs and sessions.
typedef struct belljar_runtime belljar_runtime;

// A session.
typedef struct belljar_session belljar_session;

// Progress of the first start. To ignore it, pass all zeros, or a null pointer instead.
typedef struct {
  // Passed to the function.
  void *context;
  // Called when a step starts, and with a null `step` when it ends. On any thread.
  void (*step)(void *context, const char *step);
} belljar_progress;

// Callbacks and interrupt of a run. A run without either takes all zeros, or a null pointer
// instead.
typedef struct {
  // Passed to every function.
  void *context;
  // Called with each event of the run, in the JSON of `docs/reference/events.md`, which is valid
  // only during the call. Events come in order, one at a time, on the thread that runs the code;
  // the run waits until the function returns.
  void (*event)(void *context, const char *event);
  // The tools that the code can call: a JSON array of objects with `name`, `description`,
  // `parameters` (a JSON Schema of the arguments, which are an object), and `"deferred": true`
  // for a tool to be answered later, possibly in another process.
  const char *tools;
  // Called when the code calls a tool, on the thread that runs the code. The function owns the
  // call and answers it once, with `belljar_call_answer` or `belljar_call_fail`, before or after
  // it returns, on any thread. The run's time limit continues.
  void (*call)(void *context, belljar_call *call);
  // Interrupts the run, or null. It may be freed once the run has started.
  const belljar_interrupt *interrupt;
} belljar_callbacks;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Gets the name of the called tool. Free it with `belljar_string_free`.
//
// # Safety
//
// `call` was passed to the callback `call`, and is not answered yet. `name` must be writable.
char *belljar_call_name(const belljar_call *call, char **name);

// Gets the arguments of the call: a JSON object. Free it with `belljar_string_free`.
//
// # Safety
//
// As for `belljar_call_name`.
char *belljar_call_arguments(const belljar_call *call, char **arguments);

// Answers the call with a JSON value, and frees it. If the value is not JSON, the call fails.
//
// # Safety
//
// `call` was passed to the callback `call`, and is not answered yet.
char *belljar_call_answer(belljar_call *call, const char *value);

// Reports that the call failed, and frees it. The code sees the message.
//
// # Safety
//
// As for `belljar_call_answer`.
char *belljar_call_fail(belljar_call *call, const char *reason);

// Creates a switch.
belljar_interrupt *belljar_interrupt_new(void);

// Interrupts the runs, like Ctrl-C: their outcomes have the kind `interrupted`. May be called on
// any thread. Does nothing if `interrupt` is null.
//
// # Safety
//
// `interrupt` is null or was created by `belljar_interrupt_new`, and is not freed yet.
void belljar_interrupt_use(const belljar_interrupt *interrupt);

// Frees the switch. Runs that use it keep it alive.
//
// # Safety
//
// As for `belljar_interrupt_use`.
void belljar_interrupt_free(belljar_interrupt *interrupt);

// Returns the outcome as JSON, as described in `docs/reference/outcome.md`. The text belongs to
// the outcome and is freed with it. Returns null if `outcome` is null.
//
// # Safety
//
// `outcome` is null, or was returned by this library and is not freed yet.
const char *belljar_outcome_json(const belljar_outcome *outcome);

// Reads a file of the run. Free it with `belljar_bytes_free`. Files of a session's run are read
// from the session's workspace, in their current state.
//
// # Safety
//
// `outcome` was returned by this library and is not freed yet; `path` is text; `bytes` and
// `length` must be writable.
char *belljar_outcome_read(const belljar_outcome *outcome,
                           const char *path,
                           uint8_t **bytes,
                           size_t *length);

// Frees the outcome, with the run's files. Files of a session are kept.
//
// # Safety
//
// `outcome` is null, or was returned by this library and is not freed yet.
void belljar_outcome_free(belljar_outcome *outcome);

// Starts the engine. Takes milliseconds, or about two minutes with an empty cache, when Python is
// downloaded and compiled. `options` is null or a JSON object with any of the paths `cache`,
// `wheel`, `bundle` and `temp_dir`; the SHA-256 `bundle_hash`; `file_memory` in bytes; the numbers
// of runs `concurrency` and `queue`; and `clock_resolution` in nanoseconds.
//
// # Safety
//
// `options` is null or text. `progress` is null or points to a progress, whose function may be
// called during the lifetime of the runtime and its sessions. `runtime` must be writable.
char *belljar_runtime_new(const char *options,
                          const belljar_progress *progress,
                          belljar_runtime **runtime);

// Frees the runtime. Sessions and outcomes that are not freed keep what they need.
//
// # Safety
//
// `runtime` is null, or was returned by this library and is not freed yet.
void belljar_runtime_free(belljar_runtime *runtime);

// Runs a request in a fresh sandbox, and waits for it. `request` is a JSON object with the schema
// `docs/schema/request.schema.json`; it may name files of the host.
//
// # Safety
//
// `runtime` was returned by this library and is not freed yet; `request` is text; `callbacks` is
// null or as its type says until this returns; `outcome` must be writable.
char *belljar_run(const belljar_runtime *runtime,
                  const char *request,
                  const belljar_callbacks *callbacks,
                  belljar_outcome **outcome);

// Checks code without running it. Returns a JSON object with `clean`, the `violations` of the
// policy, and the `missing_imports`. `policy` is null, `"open"`, `"strict"` (with the quotes) or
// an object as in a request.
//
// # Safety
//
// `runtime` was returned by this library and is not freed yet; `code` is text, `policy` null or
// text; `report` must be writable.
char *belljar_check(const belljar_runtime *runtime,
                    const char *code,
                    const char *policy,
                    char **report);

// Locks this process down: takes from it what runs do not need, for good. `options` is null or a
// JSON object with what it keeps: the lists of paths `read` and `write`, the list of TCP ports
// `connect`, and the booleans `resolve_names` and `end_children`. Returns a JSON object with
// `landlock` (its ABI, or null), `seccomp`, `whole`, and `failures`: a kernel may enforce nothing.
// On macOS and Windows, `other` tells what holds instead of both.
//
// # Safety
//
// `runtime` was returned by this library and is not freed yet; `options` is null or text; `report`
// must be writable.
char *belljar_lockdown(const belljar_runtime *runtime, const char *options, char **report);

// Starts a session. `options` is a JSON object with `start`, a request as for `belljar_run` whose
// code runs first and whose image, limits, policy, files and environment apply to the session; and
// any of `lifetime` and `idle` in seconds, `fuel` for all runs together, and `history` with `runs`
// and `bytes`. The tools in `callbacks` are available to every run; its other members are ignored.
//
// # Safety
//
// `runtime` was returned by this library and is not freed yet; `options` is text; `callbacks` is
// null or as its type says, during the lifetime of the session; `session` must be writable.
char *belljar_session_new(const belljar_runtime *runtime,
                          const char *options,
                          const belljar_callbacks *callbacks,
                          belljar_session **session);

// Restores a session from a checkpoint, the file `path`. The tools in `callbacks` replace those of
// the session. `options` is null, or a JSON object with any of `id` and `client`; `mounts`, an
// object from guest paths to host directories; `lifetime` and `idle` in seconds and `fuel`, which
// cap the checkpoint's limits; `policy`, which replaces the checkpoint's; and `lease`, an object
// with `seconds` and optionally `"then": "suspend"` instead of closing the session. The author of
// the checkpoint has chosen its limits and its policy.
//
// # Safety
//
// As for `belljar_session_new`; `path` is text, and `options` null or text.
char *belljar_session_restore(const belljar_runtime *runtime,
                              const char *path,
                              const char *options,
                              const belljar_callbacks *callbacks,
                              belljar_session **session);

// Frees the handle. The session continues until it is closed, or until the runtime ends with its
// last handle.
//
// # Safety
//
// `session` is null, or was returned by this library and is not freed yet.
void belljar_session_free(belljar_session *session);

// Closes the session, and stops its run. Its handles must still be freed.
//
// # Safety
//
// `session` was returned by this library and is not freed yet.
char *belljar_session_close(const belljar_session *session);

// Gets the session's id. Free it with `belljar_string_free`.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `id` must be writable.
char *belljar_session_id(const belljar_session *session, char **id);

// Runs a request after all earlier calls, and waits for it.
//
// # Safety
//
// As for `belljar_run`, with a session in place of the runtime.
char *belljar_session_run(const belljar_session *session,
                          const char *request,
                          const belljar_callbacks *callbacks,
                          belljar_outcome **outcome);

// Answers the calls of deferred tools that a run waits for, and resumes the run. `answers` is a
// JSON array of objects with `id`, and either `answer`, a value, or `error`, a message for the
// code.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `answers` is text; `outcome` must
// be writable.
char *belljar_session_answer(const belljar_session *session,
                             const char *answers,
                             belljar_outcome **outcome);

// Interrupts the current run, if any, from another thread.
//
// # Safety
//
// `session` was returned by this library and is not freed yet.
char *belljar_session_interrupt(const belljar_session *session);

// Creates another session with this one's state and history.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `fork` must be writable.
char *belljar_session_fork(const belljar_session *session, belljar_session **fork);

// Goes back to the state after run `execution`, or to the beginning with 0.
//
// # Safety
//
// `session` was returned by this library and is not freed yet.
char *belljar_session_rewind(const belljar_session *session, uint64_t execution);

// Writes the session to the file `path`, for restoring it in any process.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `path` is text.
char *belljar_session_checkpoint(const belljar_session *session, const char *path);

// Reads a global variable, as JSON in the form of `docs/reference/values.md`. Free it with
// `belljar_string_free`. Returns null if there is no such variable.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `name` is text; `value` must be
// writable.
char *belljar_session_get(const belljar_session *session, const char *name, char **value);

// Sets a global variable, from JSON in the form of `docs/reference/values.md`.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `name` and `value` are text.
char *belljar_session_set(const belljar_session *session, const char *name, const char *value);

// Reads a file in the session's workspace. Free it with `belljar_bytes_free`.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `path` is text; `data` and `length`
// must be writable.
char *belljar_session_read(const belljar_session *session,
                           const char *path,
                           uint8_t **data,
                           size_t *length);

// Writes a file in the session's workspace, without a run.
//
// # Safety
//
// `session` was returned by this library and is not freed yet; `path` is text; `data` points to
// `length` bytes, or is null if `length` is 0.
char *belljar_session_write(const belljar_session *session,
                            const char *path,
                            const uint8_t *data,
                            size_t length);

// Version of the library's interface: compare it with `BELLJAR_ABI_VERSION`.
uint32_t belljar_abi_version(void);

// Version of belljar. Must not be freed.
const char *belljar_version(void);

// Frees text returned by this library.
//
// # Safety
//
// `text` is null, or was returned by this library and is not freed yet.
void belljar_string_free(char *text);

// Frees bytes returned by this library.
//
// # Safety
//
// `bytes` and `length` are null and 0, or were returned together by this library and are not freed
// yet.
void belljar_bytes_free(uint8_t *bytes, size_t length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BELLJAR_H */
