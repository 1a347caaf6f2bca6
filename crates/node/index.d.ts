/** Runs untrusted Python in a sandbox inside this process. See docs/guide/node.md. */

/** A value that JSON can represent. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A value in the tagged form of docs/reference/values.md, for types that JavaScript lacks. */
export interface Tagged {
  $: string;
  [key: string]: unknown;
}

/** A value for a variable. */
export type Value =
  | null
  | undefined
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Date
  | Tagged
  | Value[]
  | Set<Value>
  | Map<Value, Value>
  | { [key: string]: Value };

/** The content of a file: text, bytes, base64, or a file on this machine. */
export type FileSource = string | Uint8Array | { base64: string } | { path: string };

/** A function that the code can call with its arguments as one object. */
export interface Tool<Arguments = any> {
  run: (given: Arguments) => unknown;
  description?: string;
  /** A JSON Schema of the arguments. Default: any object. */
  parameters?: object;
}

export type Tools = { [name: string]: Tool | Tool['run'] };

/** Options of a run: the properties of docs/schema/request.schema.json, and those at the end. */
export interface RunOptions {
  id?: string;
  image?: string;
  set?: { [name: string]: Value };
  files?: { [path: string]: FileSource };
  stdin?: string;
  env?: { [name: string]: string };
  run_env?: { [name: string]: string };
  aliases?: string[];
  cwd?: string;
  args?: string[];
  /** Seconds. Default: 5; `null`: as long as the runtime allows. */
  timeout?: number | null;
  memory_mb?: number;
  fuel?: number;
  output_bytes?: number;
  workspace_mb?: number;
  max_files?: number;
  policy?: Policy;
  echo?: 'none' | 'all' | 'last' | 'display';
  dialect?: 'python' | 'ipython';
  result_var?: string;
  threads?: 'in_place' | 'refuse';
  deterministic?: { seed?: number; epoch?: number; step_ns?: number };
  capture?: Capture;
  /** Aborting it interrupts the run; the outcome has the kind `interrupted`. */
  signal?: AbortSignal;
  /**
   * Called with all events in order. If it throws, the run is interrupted and rejects with the
   * error.
   */
  onEvent?: (event: Event) => void;
}

export interface ToolOptions {
  tools?: Tools;
}

export type Policy = 'open' | 'strict' | { custom: object };

export interface Capture {
  figures?: boolean;
  figure_format?: 'png' | 'svg';
  figure_dpi?: number;
  figure_count?: number;
  inline_images?: boolean;
  dataframes?: boolean;
  dataframe_chars?: number;
  table_rows?: number;
  file_hashes?: boolean;
  media_types?: boolean;
  result_bytes?: number;
  typed?: boolean;
  typed_bytes?: number;
  charts?: boolean;
  events?: boolean;
}

export interface SessionOptions extends Omit<RunOptions, 'signal' | 'onEvent'>, ToolOptions {
  /** Code to run first. */
  code?: string;
  /** Maximum age in seconds, after which the session is closed. */
  lifetime?: number;
  /** Maximum idle time in seconds, after which the session is closed. */
  idle?: number;
  /** Fuel of all runs together. */
  fuel_total?: number;
  /** Limits on the history. */
  history?: { runs: number; bytes: number };
}

/** Options for restoring a session, which complete or replace those in the checkpoint. */
export interface RestoreOptions extends ToolOptions {
  id?: string;
  client?: string;
  /** Host directories by mount point. */
  mounts?: Record<string, string>;
  /**
   * Maximum age in seconds since restoring. For each limit, the smaller of this and the
   * checkpoint's applies.
   */
  lifetime?: number;
  /** Maximum idle time in seconds, after which the session is closed. */
  idle?: number;
  /** Fuel of all runs together. */
  fuel_total?: number;
  /** Replaces the checkpoint's policy. */
  policy?: Policy;
  /**
   * Duration of the lease in seconds, and the action at its end: by default the session is closed.
   */
  lease?: { seconds: number; then?: 'close' | 'suspend' };
}

/** An event of a run; docs/reference/events.md lists the types. */
export interface Event {
  readonly at_ms: number;
  readonly type: string;
  readonly text?: string;
  readonly [key: string]: any;
}

export interface FileEntry {
  readonly path: string;
  readonly size: number;
  readonly symlink?: string | null;
  readonly sha256?: string | null;
  readonly media_type?: string | null;
  /** What is wrong with an office document or a PDF that cannot be opened. */
  readonly problem?: string | null;
}

export interface PlotEntry {
  readonly path: string;
  readonly size: number;
  readonly base64_uri?: string | null;
}

export interface DataFrameEntry {
  readonly name: string;
  readonly repr: string;
  readonly table?: unknown;
}

export interface ErrorDetail {
  readonly kind:
    | 'exception'
    | 'syntax'
    | 'timeout'
    | 'fuel'
    | 'memory'
    | 'policy'
    | 'exit'
    | 'crash'
    | 'output'
    | 'interrupted'
    | 'waiting';
  readonly type: string;
  readonly message: string;
  readonly line: number | null;
  readonly traceback: string | null;
  readonly exit_status: number | null;
  readonly hint: string | null;
  readonly violations?: readonly Violation[];
}

export interface Violation {
  readonly message: string;
  readonly line: number | null;
}

export interface Usage {
  readonly wall_ms: number;
  readonly fuel: number;
  readonly memory_peak_bytes: number;
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
  readonly workspace_bytes: number;
}

/** The outcome of a run: docs/reference/outcome.md. It is frozen. */
export interface Outcome {
  readonly success: boolean;
  readonly result: any;
  readonly stdout: string;
  readonly stderr: string;
  readonly files: readonly FileEntry[];
  readonly plots: readonly PlotEntry[];
  readonly dataframes: readonly DataFrameEntry[];
  readonly error: string | null;
  readonly error_detail: ErrorDetail | null;
  readonly code: string;
  readonly truncated: readonly string[];
  readonly usage: Usage;
  readonly typed?: unknown;
  readonly events?: readonly Event[] | null;
  readonly tool_calls?: readonly ToolCall[];
  readonly interpreter_id?: string;
  readonly execution?: number;
  readonly interpreter_restarted?: boolean;
  readonly restart_reason?: string | null;
  readonly interpreter_crashed?: boolean;
  /** Reads a file of the run, by its path in `files` or `plots`. */
  read(path: string): Promise<Buffer>;
  /** Throws a `RunError` if the code failed; otherwise returns this outcome. */
  raiseForError(): this;
}

export interface ToolCall {
  readonly id: number;
  readonly name: string;
  readonly arguments: unknown;
  readonly ok: boolean;
  readonly error: { readonly kind: string; readonly message: string } | null;
  readonly duration_ms: number;
}

export interface CheckReport {
  readonly clean: boolean;
  readonly violations: readonly Violation[];
  readonly missing_imports: readonly string[];
}

export interface RuntimeOptions {
  /** Cache directory. Default: `BELLJAR_CACHE`, or the platform's cache directory. */
  cache?: string;
  /** Wheel of Python for WASI. Default: download it. */
  wheel?: string;
  /** Bundle to run from, instead of a cache. */
  bundle?: string;
  /** Required SHA-256 of the bundle's manifest. */
  bundle_hash?: string;
  /**
   * Directory for files that exceed `file_memory`. Default: the system's directory for temporary
   * files.
   */
  temp_dir?: string;
  /** Bytes of sandbox files kept in memory. Default: 256 MiB. */
  file_memory?: number;
  /** Concurrent runs. Default: four for each core. */
  concurrency?: number;
  /** Maximum number of waiting runs. Default: 1,024. */
  queue?: number;
  /** Step of the sandboxes' clocks, in nanoseconds. Default: that of the system. */
  clock_resolution?: number;
  /** Called with each step of the first setup, and with null at its end. */
  onProgress?: (step: string | null) => void;
}

export interface ConnectOptions {
  /** Address of the server, such as `https://host`. Default: `BELLJAR_URL`. */
  url?: string;
  /** Default: `BELLJAR_KEY`. */
  key?: string;
  /** Seconds for which the server may be silent, by default 60; null waits for ever. */
  timeout?: number | null;
  /** How often a request is sent again. Default: 4. */
  retries?: number;
}

/**
 * Returns a runtime whose runs and sessions are those of a server, started with `belljar serve`.
 * Nothing is sent before the first call.
 */
export function connect(options?: ConnectOptions): Runtime;

/** The engine, shared by runs and sessions. */
export class Runtime {
  private constructor();
  static start(options?: RuntimeOptions): Promise<Runtime>;
  /** Runs code in a fresh sandbox. */
  run(code: string, options?: RunOptions & ToolOptions): Promise<Outcome>;
  /** Runs code in a fresh sandbox, with its events as they happen. */
  stream(code: string, options?: Omit<RunOptions, 'onEvent'> & ToolOptions): EventStream;
  session(options?: SessionOptions): Promise<Session>;
  /** Restores a session from a checkpoint, whose author has chosen its limits and its policy. */
  restore(path: string, options?: RestoreOptions): Promise<Session>;
  /** Checks code without running it. */
  check(code: string, policy?: Policy): Promise<CheckReport>;
  /**
   * Locks this process down, with all its threads and for good: it keeps what runs need, and what
   * the options name. A kernel may enforce nothing, and macOS and Windows less than Linux.
   */
  lockdown(options?: LockdownOptions): LockdownReport;
}

/** What a process that is locked down keeps. */
export interface LockdownOptions {
  /** Files and directories that stay readable. */
  read?: string[];
  /** Files and directories that stay writable. */
  write?: string[];
  /** Ports that TCP connections can be made to. */
  connect?: number[];
  /** Keeps what resolving names and checking certificates take. */
  resolve_names?: boolean;
  /** Keeps the right to send signals. */
  end_children?: boolean;
}

/** What holds a process that was locked down. */
export interface LockdownReport {
  /** The ABI of Landlock that holds every thread. */
  readonly landlock: number | null;
  /** Whether the system calls of every thread are filtered. */
  readonly seccomp: boolean;
  /** What holds instead of both on macOS and Windows, and how far it was tried. */
  readonly other?: string;
  /** Whether both hold, or what this system has instead, and nothing failed. */
  readonly whole: boolean;
  /** What could not be enforced, and why. */
  readonly failures: readonly string[];
}

/** An interpreter that keeps its state from run to run. */
export class Session {
  private constructor();
  readonly id: string;
  readonly files: Files;
  /** Runs code after all earlier calls. */
  run(code: string, options?: RunOptions): Promise<Outcome>;
  stream(code: string, options?: Omit<RunOptions, 'onEvent'>): EventStream;
  /** Interrupts the current run. Returns whether there was one. */
  interrupt(): boolean;
  /** Creates another session with this state and history. */
  fork(): Promise<Session>;
  /** Goes back to the state after a run, or to the beginning with 0. */
  rewind(execution: number): Promise<void>;
  /** Writes the session to a file, for restoring it in any process. */
  checkpoint(path: string): Promise<void>;
  /** Reads a global variable; undefined if it does not exist. */
  get(name: string): Promise<any>;
  set(name: string, value: Value): Promise<void>;
  /** Closes the session, and stops its run. */
  close(): void;
}

export interface PathEntry {
  readonly path: string;
  readonly kind: 'file' | 'directory' | 'link';
  readonly size: number;
  readonly modified: Date | null;
  readonly target: string | null;
}

/** The files of a session's workspace, accessed without a run. */
export class Files {
  private constructor();
  read(path: string): Promise<Buffer>;
  write(path: string, data: string | Uint8Array): Promise<void>;
  list(dir?: string, options?: { depth?: number }): Promise<PathEntry[]>;
  makeDir(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

/**
 * The events of a run as they happen. Can be iterated once; leaving the loop interrupts the run.
 */
export class EventStream implements AsyncIterableIterator<Event> {
  private constructor();
  readonly outcome: Promise<Outcome>;
  next(): Promise<IteratorResult<Event, any>>;
  return(value?: any): Promise<IteratorResult<Event, any>>;
  [Symbol.asyncIterator](): this;
}

/** An error of the engine. Errors of the code are in the outcome instead. */
export class BelljarError extends Error {
  readonly name: 'BelljarError';
  readonly code: string;
  readonly blame: 'caller' | 'guest' | 'engine' | 'machine';
  readonly hint?: string;
  readonly reasons?: readonly unknown[];
}

/** The code of a run failed: what `Outcome.raiseForError` throws. */
export class RunError extends Error {
  readonly name: 'RunError';
  readonly outcome: Outcome;
}

/** Thrown by a tool to show the message to the code. */
export class ToolError extends Error {
  constructor(message: string);
}
