/** Python in a sandbox inside this process. The guide is docs/guide/node.md. */

/** A value that has a form in JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A value in the tagged form of docs/reference/values.md, for what JavaScript has not. */
export interface Tagged {
  $: string;
  [key: string]: unknown;
}

/** What a variable can be set to. */
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

/** The bytes of a file: text, bytes, base64, or a file of this machine. */
export type FileSource = string | Uint8Array | { base64: string } | { path: string };

/** A function that the code can call, with the arguments as one object. */
export interface Tool<Arguments = any> {
  run: (given: Arguments) => unknown;
  description?: string;
  /** A JSON Schema of the arguments. Default: any object. */
  parameters?: object;
}

export type Tools = { [name: string]: Tool | Tool['run'] };

/** What a run is asked for: the members of docs/schema/request.schema.json, and what follows them. */
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
  /** Seconds. */
  timeout?: number;
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
  /** Interrupts the run when it is aborted; the outcome is of the kind `interrupted`. */
  signal?: AbortSignal;
  /** Is told what happens, in order. What it throws interrupts the run and comes out of it. */
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
  /** Runs first. */
  code?: string;
  /** Seconds since it was made, after which it is closed. */
  lifetime?: number;
  /** Seconds since its last run, after which it is closed. */
  idle?: number;
  /** Fuel of all its runs together. */
  fuel_total?: number;
  /** How much of its past is kept. */
  history?: { runs: number; bytes: number };
}

/** What a restored session gets that is not in its checkpoint, or instead of what is. */
export interface RestoreOptions extends ToolOptions {
  id?: string;
  client?: string;
  /** A directory of the host for each place where the session sees one. */
  mounts?: Record<string, string>;
  /** Seconds since it was restored: of each limit the smaller of this and the checkpoint's counts. */
  lifetime?: number;
  /** Seconds since its last run, after which it is closed. */
  idle?: number;
  /** Fuel of all its runs together. */
  fuel_total?: number;
  /** In the place of the checkpoint's. */
  policy?: Policy;
  /** How long somebody answers for it, in seconds, and what becomes of it then: it is closed by default. */
  lease?: { seconds: number; then?: 'close' | 'suspend' };
}

/** Something that happened in a run; docs/reference/events.md lists the types. */
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

/** What a run returned: docs/reference/outcome.md. It is frozen. */
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
  /** The bytes of a file that the run left, by its path in `files` or `plots`. */
  read(path: string): Promise<Buffer>;
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
  /** Where artifact, code and images are kept. Default: `BELLJAR_CACHE`, or the platform's place. */
  cache?: string;
  /** The Python wheel, in place of downloading it. */
  wheel?: string;
  /** A bundle to run from, in place of a cache. */
  bundle?: string;
  /** The SHA-256 that the bundle's manifest must have. */
  bundle_hash?: string;
  /** Where files go that memory has no room for. Default: the system's directory for temporary files. */
  temp_dir?: string;
  /** Bytes of sandboxes' files that are kept in memory. Default: 256 MiB. */
  file_memory?: number;
  /** Runs at once. Default: four for each core. */
  concurrency?: number;
  /** Runs that may wait. Default: 1,024. */
  queue?: number;
  /** Is told of what takes long on the first start: a step, and null when it has ended. */
  onProgress?: (step: string | null) => void;
}

/** The engine: what all runs and sessions share. */
export class Runtime {
  private constructor();
  static start(options?: RuntimeOptions): Promise<Runtime>;
  /** Runs code in a fresh sandbox. */
  run(code: string, options?: RunOptions & ToolOptions): Promise<Outcome>;
  /** The same, with its events as they happen. */
  stream(code: string, options?: Omit<RunOptions, 'onEvent'> & ToolOptions): EventStream;
  session(options?: SessionOptions): Promise<Session>;
  /** Starts a session from a checkpoint, whose author chose its limits and its policy. */
  restore(path: string, options?: RestoreOptions): Promise<Session>;
  /** Looks at code without running it. */
  check(code: string, policy?: Policy): Promise<CheckReport>;
}

/** An interpreter that is kept from run to run. */
export class Session {
  private constructor();
  readonly id: string;
  readonly files: Files;
  /** Runs code after what was asked for before it. */
  run(code: string, options?: RunOptions): Promise<Outcome>;
  stream(code: string, options?: Omit<RunOptions, 'onEvent'>): EventStream;
  /** Interrupts what it runs. Returns whether it ran anything. */
  interrupt(): boolean;
  /** Another session with this one's state and history. */
  fork(): Promise<Session>;
  /** Goes back to the state after a run; the beginning is 0. */
  rewind(execution: number): Promise<void>;
  /** Writes it to a file, from which any process restores it. */
  checkpoint(path: string): Promise<void>;
  /** The value of a global variable; undefined if there is none. */
  get(name: string): Promise<any>;
  set(name: string, value: Value): Promise<void>;
  /** Ends it, and what it runs. */
  close(): void;
}

export interface PathEntry {
  readonly path: string;
  readonly kind: 'file' | 'directory' | 'link';
  readonly size: number;
  readonly modified: Date | null;
  readonly target: string | null;
}

/** The files of a session's workspace, without a run. */
export class Files {
  private constructor();
  read(path: string): Promise<Buffer>;
  write(path: string, data: string | Uint8Array): Promise<void>;
  list(dir?: string, options?: { depth?: number }): Promise<PathEntry[]>;
  makeDir(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

/** The events of a run as they happen, once. To leave the loop interrupts the run. */
export class EventStream implements AsyncIterableIterator<Event> {
  private constructor();
  readonly outcome: Promise<Outcome>;
  next(): Promise<IteratorResult<Event, any>>;
  return(value?: any): Promise<IteratorResult<Event, any>>;
  [Symbol.asyncIterator](): this;
}

/** What the engine could not do. What code does wrong is in the outcome instead. */
export class BelljarError extends Error {
  readonly name: 'BelljarError';
  readonly code: string;
  readonly blame: 'caller' | 'guest' | 'engine' | 'machine';
  readonly hint?: string;
  readonly reasons?: readonly unknown[];
}

/** Thrown by a tool: its message is what the code is told. */
export class ToolError extends Error {
  constructor(message: string);
}
