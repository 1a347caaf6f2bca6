;; A guest that speaks the runner's protocol and interprets a small command language.
;;
;; It takes the place of CPython in tests that are not about Python. `guest.rs` lists the commands,
;; and replaces each text behind an @ by the address and the length of a constant.
;;
;; Only memory and the one mutable global survive a run, as belljar demands of every module: the
;; global is the top of a heap that each run begins anew.
(module
  (import "host" "call" (func $host (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory"
    (func $path_create_directory (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file"
    (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename"
    (func $path_rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get"
    (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))

  (memory (export "memory") 16)

  ;; The top of the heap, from which answers of the host are allocated.
  (global $top (mut i32) (i32.const 0x30000))

  ;; Addresses of words. The first three are those that a soft interrupt writes to.
  (global $TRIPPED i32 (i32.const 16))
  (global $IS_TRIPPED i32 (i32.const 20))
  (global $EVAL_BREAKER i32 (i32.const 24))
  (global $ANSWER i32 (i32.const 32))         ;; where an answer is, and at + 4 its length
  (global $FD i32 (i32.const 40))
  (global $MOVED i32 (i32.const 44))          ;; bytes that a call has read or written
  (global $BUFFER i32 (i32.const 48))         ;; address and length, for fd_read and fd_write
  (global $LINE i32 (i32.const 56))           ;; the line that runs
  (global $VALUE i32 (i32.const 64))          ;; the run's value as JSON: address and length
  (global $PEN i32 (i32.const 72))            ;; the end of the text that is being written
  (global $WIDE i32 (i32.const 80))           ;; 64 bits from a clock, or from chance
  (global $SUBSCRIPTION i32 (i32.const 128))
  (global $EVENT i32 (i32.const 192))
  (global $VARIABLES i32 (i32.const 256))     ;; `a` to `z`, 64 bits each
  ;; Addresses of areas; constants are at 0x400.
  (global $CHUNK i32 (i32.const 0x8000))      ;; 32 KiB for the contents of files
  (global $TEXT i32 (i32.const 0x10000))      ;; 64 KiB for frames and numbers
  (global $RESERVED i32 (i32.const 0x20000))  ;; 64 KiB for the answer to a run's first frame
  (global $HEAP i32 (i32.const 0x30000))
  (global $HEAP_END i32 (i32.const 0x100000))

  ;; What a command returns beside 0 and error numbers of WASI.
  (global $ENDED i32 (i32.const -1))          ;; the run is over
  (global $NO_MEMORY i32 (i32.const -2))
  (global $UNKNOWN i32 (i32.const -3))        ;; there is no such command

  ;; --- What the host calls ---

  (func $host_alloc (export "host_alloc") (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $top))
    (if (i32.gt_u (local.get $size) (i32.sub (global.get $HEAP_END) (local.get $at)))
      (then (return (i32.const 0))))
    (global.set $top
      (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))

  ;; One run. Its source says only that there is an order, which the frame `r` asks for.
  (func (export "turn") (param i32 i32) (result i32)
    (local $code i32)
    (global.set $top (global.get $HEAP))
    (i32.store (global.get $LINE) (i32.const 0))
    (i32.store offset=4 (global.get $VALUE) (i32.const 0))
    (if (call $send @"r") (then (return (i32.const 1))))
    ;; The second line of the order begins with the code.
    (local.set $code
      (i32.add
        (call $find (i32.load (global.get $ANSWER)) (call $answer_end) (i32.const 10))
        (i32.const 10)))
    (call $run (local.get $code) (call $decode (local.get $code)))
    (i32.const 0))

  ;; --- Text ---

  ;; The address of a byte between two addresses, or the second of them.
  (func $find (param $at i32) (param $end i32) (param $byte i32) (result i32)
    (block $found
      (loop $next
        (br_if $found (i32.ge_u (local.get $at) (local.get $end)))
        (br_if $found (i32.eq (i32.load8_u (local.get $at)) (local.get $byte)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $at))

  ;; The end of the word at an address.
  (func $word (param $at i32) (param $end i32) (result i32)
    (call $find (local.get $at) (local.get $end) (i32.const 32)))

  ;; Where the text after a word begins.
  (func $after (param $word i32) (param $end i32) (result i32)
    (select
      (i32.add (local.get $word) (i32.const 1)) (local.get $end)
      (i32.lt_u (local.get $word) (local.get $end))))

  ;; Whether the text between two addresses is this one.
  (func $is (param $at i32) (param $end i32) (param $text i32) (param $length i32) (result i32)
    (local $i i32)
    (if (i32.ne (i32.sub (local.get $end) (local.get $at)) (local.get $length))
      (then (return (i32.const 0))))
    (block $differs
      (loop $next
        (if (i32.ge_u (local.get $i) (local.get $length)) (then (return (i32.const 1))))
        (br_if $differs
          (i32.ne
            (i32.load8_u (i32.add (local.get $at) (local.get $i)))
            (i32.load8_u (i32.add (local.get $text) (local.get $i)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  ;; A decimal number.
  (func $number (param $at i32) (param $end i32) (result i64)
    (local $n i64) (local $sign i64)
    (local.set $sign (i64.const 1))
    (block $read
      (loop $next
        (br_if $read (i32.ge_u (local.get $at) (local.get $end)))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 45))
          (then (local.set $sign (i64.const -1)))
          (else
            (local.set $n
              (i64.add
                (i64.mul (local.get $n) (i64.const 10))
                (i64.sub (i64.load8_u (local.get $at)) (i64.const 48))))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i64.mul (local.get $n) (local.get $sign)))

  ;; A digit of a hexadecimal number in lower case.
  (func $hex (param $byte i32) (result i32)
    (i32.sub
      (local.get $byte)
      (select (i32.const 87) (i32.const 48) (i32.gt_u (local.get $byte) (i32.const 57)))))

  ;; Decodes a JSON string in place, from behind its first quote; returns where it ends. serde_json
  ;; writes \u only for control characters, so that the last two of its digits are enough.
  (func $decode (param $at i32) (result i32)
    (local $to i32) (local $byte i32)
    (local.set $to (local.get $at))
    (block $done
      (loop $next
        (local.set $byte (i32.load8_u (local.get $at)))
        (br_if $done (i32.eq (local.get $byte) (i32.const 34)))
        (if (i32.eq (local.get $byte) (i32.const 92))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (local.set $byte (i32.load8_u (local.get $at)))
            (if (i32.eq (local.get $byte) (i32.const 110)) (then (local.set $byte (i32.const 10))))
            (if (i32.eq (local.get $byte) (i32.const 116)) (then (local.set $byte (i32.const 9))))
            (if (i32.eq (local.get $byte) (i32.const 114)) (then (local.set $byte (i32.const 13))))
            (if (i32.eq (local.get $byte) (i32.const 117))
              (then
                (local.set $byte
                  (i32.add
                    (i32.shl (call $hex (i32.load8_u offset=3 (local.get $at))) (i32.const 4))
                    (call $hex (i32.load8_u offset=4 (local.get $at)))))
                (local.set $at (i32.add (local.get $at) (i32.const 4)))))))
        (i32.store8 (local.get $to) (local.get $byte))
        (local.set $to (i32.add (local.get $to) (i32.const 1)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $to))

  ;; Begins a text; what follows is added to it.
  (func $begin (i32.store (global.get $PEN) (global.get $TEXT)))

  (func $put_byte (param $byte i32)
    (i32.store8 (i32.load (global.get $PEN)) (local.get $byte))
    (i32.store (global.get $PEN) (i32.add (i32.load (global.get $PEN)) (i32.const 1))))

  (func $put (param $at i32) (param $length i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $length)))
        (call $put_byte (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $next))))

  ;; The text between two addresses as a JSON string.
  (func $put_quoted (param $at i32) (param $end i32)
    (local $byte i32)
    (call $put_byte (i32.const 34))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (if (i32.or
              (i32.eq (local.get $byte) (i32.const 34)) (i32.eq (local.get $byte) (i32.const 92)))
          (then (call $put_byte (i32.const 92))))
        (call $put_byte (local.get $byte))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (call $put_byte (i32.const 34)))

  (func $put_number (param $n i64)
    (if (i64.lt_s (local.get $n) (i64.const 0))
      (then
        (call $put_byte (i32.const 45))
        (local.set $n (i64.sub (i64.const 0) (local.get $n)))))
    (if (i64.ge_u (local.get $n) (i64.const 10))
      (then (call $put_number (i64.div_u (local.get $n) (i64.const 10)))))
    (call $put_byte
      (i32.wrap_i64 (i64.add (i64.rem_u (local.get $n) (i64.const 10)) (i64.const 48)))))

  (func $put_line_number
    (call $put @",\22line\22:")
    (call $put_number (i64.load32_u (global.get $LINE))))

  (func $written (result i32) (i32.sub (i32.load (global.get $PEN)) (global.get $TEXT)))

  ;; --- Frames ---

  ;; Sends a frame; 0 where it was answered.
  (func $send (param $at i32) (param $length i32) (result i32)
    (call $host
      (local.get $at) (local.get $length)
      (global.get $ANSWER) (i32.add (global.get $ANSWER) (i32.const 4))))

  (func $answer_end (result i32)
    (i32.add (i32.load (global.get $ANSWER)) (i32.load offset=4 (global.get $ANSWER))))

  ;; Sends the text that was written as a frame.
  (func $send_text (result i32) (call $send (global.get $TEXT) (call $written)))

  ;; Sends the status that was written, with the line; then the value, where the code has set one,
  ;; and that the run is over. Returns that the run has ended.
  (func $end (result i32)
    (call $put_line_number)
    (call $put_byte (i32.const 125))
    (drop (call $send_text))
    (if (i32.load offset=4 (global.get $VALUE))
      (then
        (call $begin)
        (call $put @"v{\22value\22:")
        (call $put (i32.load (global.get $VALUE)) (i32.load offset=4 (global.get $VALUE)))
        (call $put_byte (i32.const 125))
        (drop (call $send_text))))
    (drop (call $send @"x{}"))
    (drop (call $send @"e{}"))
    (global.get $ENDED))

  ;; Ends the run with an exception, whose message is what was written behind its type.
  (func $end_with_error (param $at i32) (param $end i32) (result i32)
    (call $begin)
    (call $put @"s{\22status\22:\22exception\22,\22type\22:\22ToyError\22,\22message\22:")
    (call $put_quoted (local.get $at) (local.get $end))
    (call $end))

  ;; --- The interrupt ---

  ;; Whether the host has interrupted the run.
  (func $interrupted (result i32)
    (i32.and (i32.load (global.get $EVAL_BREAKER)) (i32.const 2)))

  ;; Meets an interrupt as CPython's handler does: tells of it, and ends the run.
  (func $meet_interrupt (result i32)
    (i32.store (global.get $EVAL_BREAKER) (i32.const 0))
    (i32.store (global.get $TRIPPED) (i32.const 0))
    (i32.store (global.get $IS_TRIPPED) (i32.const 0))
    (call $begin)
    (call $put @"i{\22line\22:")
    (call $put_number (i64.load32_u (global.get $LINE)))
    (call $put_byte (i32.const 125))
    (drop (call $send_text))
    (call $begin)
    (call $put @"s{\22status\22:\22interrupted\22,\22type\22:\22KeyboardInterrupt\22")
    (call $end))

  ;; --- A run ---

  ;; Runs the lines between two addresses.
  (func $run (param $at i32) (param $end i32)
    (local $line i32) (local $came i32)
    (block $over
      (loop $next
        (if (call $interrupted) (then (drop (call $meet_interrupt)) (return)))
        (br_if $over (i32.ge_u (local.get $at) (local.get $end)))
        (i32.store (global.get $LINE) (i32.add (i32.load (global.get $LINE)) (i32.const 1)))
        (local.set $line (call $find (local.get $at) (local.get $end) (i32.const 10)))
        (if (i32.gt_u (local.get $line) (local.get $at))
          (then
            (local.set $came (call $command (local.get $at) (local.get $line)))
            (if (i32.eq (local.get $came) (global.get $ENDED)) (then (return)))
            (if (local.get $came)
              (then
                ;; One that fails because it was interrupted, was interrupted.
                (if (call $interrupted)
                  (then (drop (call $meet_interrupt)))
                  (else (drop (call $failed (local.get $came) (local.get $at) (local.get $line)))))
                (return)))))
        (local.set $at (call $after (local.get $line) (local.get $end)))
        (br $next)))
    (call $begin)
    (call $put @"s{\22status\22:\22ok\22")
    (drop (call $end)))

  ;; Ends the run with what a command has failed with.
  (func $failed (param $came i32) (param $at i32) (param $end i32) (result i32)
    (call $begin)
    (if (i32.eq (local.get $came) (global.get $NO_MEMORY))
      (then
        (call $put @"s{\22status\22:\22memory\22")
        (return (call $end))))
    (if (i32.eq (local.get $came) (global.get $UNKNOWN))
      (then
        (call $put @"s{\22status\22:\22syntax\22,\22type\22:\22SyntaxError\22,\22message\22:")
        (call $put_quoted (local.get $at) (local.get $end))
        (return (call $end))))
    (call $put @"s{\22status\22:\22exception\22,\22type\22:\22OSError\22,\22message\22:\22errno ")
    (call $put_number (i64.extend_i32_u (local.get $came)))
    (call $put_byte (i32.const 34))
    (call $end))

  ;; --- Files ---

  ;; Writes all of it; an error number.
  (func $write_all (param $fd i32) (param $at i32) (param $length i32) (result i32)
    (local $came i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $length)))
        (i32.store (global.get $BUFFER) (local.get $at))
        (i32.store offset=4 (global.get $BUFFER) (local.get $length))
        (local.set $came
          (call $fd_write
            (local.get $fd) (global.get $BUFFER) (i32.const 1) (global.get $MOVED)))
        (if (local.get $came) (then (return (local.get $came))))
        (local.set $at (i32.add (local.get $at) (i32.load (global.get $MOVED))))
        (local.set $length (i32.sub (local.get $length) (i32.load (global.get $MOVED))))
        (br $next)))
    (i32.const 0))

  ;; Prints a line.
  (func $print (param $at i32) (param $length i32) (result i32)
    (local $came i32)
    (local.set $came (call $write_all (i32.const 1) (local.get $at) (local.get $length)))
    (if (local.get $came) (then (return (local.get $came))))
    (call $write_all (i32.const 1) @"\n"))

  ;; Prints the text that was written.
  (func $print_text (result i32) (call $print (global.get $TEXT) (call $written)))

  (func $print_number (param $n i64) (result i32)
    (call $begin)
    (call $put_number (local.get $n))
    (call $print_text))

  ;; The directory that a path begins at: the root, or the workspace.
  (func $directory (param $at i32) (result i32)
    (select (i32.const 7) (i32.const 5) (i32.eq (i32.load8_u (local.get $at)) (i32.const 47))))

  ;; Where a path begins below it.
  (func $below (param $at i32) (result i32)
    (i32.add (local.get $at) (i32.eq (i32.load8_u (local.get $at)) (i32.const 47))))

  ;; Opens a path with flags of WASI; the descriptor is in $FD.
  (func $open
    (param $at i32) (param $end i32) (param $how i32) (param $rights i64) (param $flags i32)
    (result i32)
    (call $path_open
      (call $directory (local.get $at)) (i32.const 1)
      (call $below (local.get $at)) (i32.sub (local.get $end) (call $below (local.get $at)))
      (local.get $how) (local.get $rights) (i64.const 0) (local.get $flags) (global.get $FD)))

  ;; Closes the file that was opened last, and passes an error number on.
  (func $close_after (param $fd i32) (param $came i32) (result i32)
    (drop (call $fd_close (local.get $fd)))
    (local.get $came))

  ;; Writes so many bytes, a piece at a time, unless it is interrupted.
  (func $fill (param $fd i32) (param $bytes i64) (result i32)
    (local $piece i32) (local $came i32)
    (block $done
      (loop $next
        (br_if $done (i64.eqz (local.get $bytes)))
        (br_if $done (call $interrupted))
        (local.set $piece
          (select
            (i32.const 0x8000) (i32.wrap_i64 (local.get $bytes))
            (i64.gt_u (local.get $bytes) (i64.const 0x8000))))
        (local.set $came (call $write_all (local.get $fd) (global.get $CHUNK) (local.get $piece)))
        (if (local.get $came) (then (return (local.get $came))))
        (local.set $bytes (i64.sub (local.get $bytes) (i64.extend_i32_u (local.get $piece))))
        (br $next)))
    (i32.const 0))

  ;; Prints what a descriptor has.
  (func $copy_out (param $fd i32) (result i32)
    (local $came i32)
    (loop $next
      (i32.store (global.get $BUFFER) (global.get $CHUNK))
      (i32.store offset=4 (global.get $BUFFER) (i32.const 0x8000))
      (local.set $came
        (call $fd_read (local.get $fd) (global.get $BUFFER) (i32.const 1) (global.get $MOVED)))
      (if (local.get $came) (then (return (local.get $came))))
      (if (i32.eqz (i32.load (global.get $MOVED))) (then (return (i32.const 0))))
      (local.set $came
        (call $write_all (i32.const 1) (global.get $CHUNK) (i32.load (global.get $MOVED))))
      (if (local.get $came) (then (return (local.get $came))))
      (br $next))
    (unreachable))

  ;; --- Commands ---

  ;; The address of a variable.
  (func $variable (param $at i32) (result i32)
    (i32.add
      (global.get $VARIABLES)
      (i32.shl (i32.sub (i32.load8_u (local.get $at)) (i32.const 97)) (i32.const 3))))

  ;; Sends a frame, prints the answer, or that there is none, and frees it.
  (func $ask (param $at i32) (param $length i32) (result i32)
    (local $top i32)
    (local.set $top (global.get $top))
    (if (call $send (local.get $at) (local.get $length))
      (then (return (call $print @"refused"))))
    (global.set $top (local.get $top))
    (call $print (i32.load (global.get $ANSWER)) (i32.load offset=4 (global.get $ANSWER))))

  ;; Grows the memory, and writes to each of the new pages.
  (func $grow (param $pages i32) (result i32)
    (local $page i32)
    (local.set $page (memory.grow (local.get $pages)))
    (if (i32.eq (local.get $page) (i32.const -1)) (then (return (global.get $NO_MEMORY))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $page) (memory.size)))
        (i32.store8 (i32.shl (local.get $page) (i32.const 16)) (i32.const 1))
        (local.set $page (i32.add (local.get $page) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  (func $sleep (param $milliseconds i64) (result i32)
    (i32.store8 offset=8 (global.get $SUBSCRIPTION) (i32.const 0))
    (i32.store offset=16 (global.get $SUBSCRIPTION) (i32.const 1))
    (i64.store offset=24 (global.get $SUBSCRIPTION)
      (i64.mul (local.get $milliseconds) (i64.const 1000000)))
    (call $poll_oneoff
      (global.get $SUBSCRIPTION) (global.get $EVENT) (i32.const 1) (global.get $MOVED)))

  ;; Never comes back. A loop that calls nothing would look at its fuel only after very many turns.
  (func $hang (loop $next (call $nothing) (br $next)))
  (func $nothing)

  (func $recurse (param $n i32) (result i32)
    (i32.add (local.get $n) (call $recurse (i32.add (local.get $n) (i32.const 1)))))

  ;; Runs one command.
  (func $command (param $at i32) (param $end i32) (result i32)
    (local $word i32)  ;; where its name ends
    (local $arg i32)   ;; its first argument begins
    (local $first i32) ;; that one ends
    (local $rest i32)  ;; what follows begins
    (local $came i32) (local $fd i32) (local $count i64)
    (local.set $word (call $word (local.get $at) (local.get $end)))
    (local.set $arg (call $after (local.get $word) (local.get $end)))
    (local.set $first (call $word (local.get $arg) (local.get $end)))
    (local.set $rest (call $after (local.get $first) (local.get $end)))

    (if (call $is (local.get $at) (local.get $word) @"print")
      (then (return (call $print (local.get $arg) (i32.sub (local.get $end) (local.get $arg))))))
    (if (call $is (local.get $at) (local.get $word) @"flood")
      (then (return (call $fill (i32.const 1) (call $number (local.get $arg) (local.get $end))))))
    (if (call $is (local.get $at) (local.get $word) @"error")
      (then
        (return
          (call $write_all
            (i32.const 2) (local.get $arg) (i32.sub (local.get $end) (local.get $arg))))))
    (if (call $is (local.get $at) (local.get $word) @"stdin")
      (then (return (call $copy_out (i32.const 0)))))

    ;; Variables.
    (if (call $is (local.get $at) (local.get $word) @"set")
      (then
        (i64.store
          (call $variable (local.get $arg)) (call $number (local.get $rest) (local.get $end)))
        (return (i32.const 0))))
    (if (call $is (local.get $at) (local.get $word) @"add")
      (then
        (i64.store
          (call $variable (local.get $arg))
          (i64.add
            (i64.load (call $variable (local.get $arg)))
            (call $number (local.get $rest) (local.get $end))))
        (return (i32.const 0))))
    (if (call $is (local.get $at) (local.get $word) @"get")
      (then (return (call $print_number (i64.load (call $variable (local.get $arg)))))))
    (if (call $is (local.get $at) (local.get $word) @"value")
      (then
        (i32.store (global.get $VALUE) (local.get $arg))
        (i32.store offset=4 (global.get $VALUE) (i32.sub (local.get $end) (local.get $arg)))
        (return (i32.const 0))))

    ;; Files.
    (if (i32.or
          (call $is (local.get $at) (local.get $word) @"write")
          (i32.or
            (call $is (local.get $at) (local.get $word) @"append")
            (call $is (local.get $at) (local.get $word) @"fill")))
      (then
        (local.set $came
          (if (result i32) (call $is (local.get $at) (local.get $word) @"append")
            (then (call $open (local.get $arg) (local.get $first)
              (i32.const 1) (i64.const 64) (i32.const 1)))
            (else (call $open (local.get $arg) (local.get $first)
              (i32.const 9) (i64.const 64) (i32.const 0)))))
        (if (local.get $came) (then (return (local.get $came))))
        (local.set $fd (i32.load (global.get $FD)))
        (return
          (call $close_after
            (local.get $fd)
            (if (result i32) (call $is (local.get $at) (local.get $word) @"fill")
              (then
                (call $fill (local.get $fd) (call $number (local.get $rest) (local.get $end))))
              (else
                (call $write_all
                  (local.get $fd)
                  (local.get $rest) (i32.sub (local.get $end) (local.get $rest)))))))))
    (if (call $is (local.get $at) (local.get $word) @"read")
      (then
        (local.set $came
          (call $open (local.get $arg) (local.get $first)
            (i32.const 0) (i64.const 2) (i32.const 0)))
        (if (local.get $came) (then (return (local.get $came))))
        (local.set $fd (i32.load (global.get $FD)))
        (return (call $close_after (local.get $fd) (call $copy_out (local.get $fd))))))
    (if (call $is (local.get $at) (local.get $word) @"remove")
      (then
        (return
          (call $path_unlink_file
            (call $directory (local.get $arg)) (call $below (local.get $arg))
            (i32.sub (local.get $first) (call $below (local.get $arg)))))))
    (if (call $is (local.get $at) (local.get $word) @"mkdir")
      (then
        (return
          (call $path_create_directory
            (call $directory (local.get $arg)) (call $below (local.get $arg))
            (i32.sub (local.get $first) (call $below (local.get $arg)))))))
    (if (call $is (local.get $at) (local.get $word) @"rename")
      (then
        (return
          (call $path_rename
            (call $directory (local.get $arg)) (call $below (local.get $arg))
            (i32.sub (local.get $first) (call $below (local.get $arg)))
            (call $directory (local.get $rest)) (call $below (local.get $rest))
            (i32.sub (local.get $end) (call $below (local.get $rest)))))))
    ;; Descriptors that stay open, in variables.
    (if (call $is (local.get $at) (local.get $word) @"open")
      (then
        (local.set $came
          (call $open (local.get $rest) (local.get $end)
            (i32.const 1) (i64.const 66) (i32.const 1)))
        (if (local.get $came) (then (return (local.get $came))))
        (i64.store (call $variable (local.get $arg)) (i64.load32_u (global.get $FD)))
        (return (i32.const 0))))
    (if (call $is (local.get $at) (local.get $word) @"put")
      (then
        (return
          (call $write_all
            (i32.load (call $variable (local.get $arg)))
            (local.get $rest) (i32.sub (local.get $end) (local.get $rest))))))
    (if (call $is (local.get $at) (local.get $word) @"close")
      (then (return (call $fd_close (i32.load (call $variable (local.get $arg)))))))

    ;; Memory, time and chance.
    (if (call $is (local.get $at) (local.get $word) @"grow")
      (then
        (return (call $grow (i32.wrap_i64 (call $number (local.get $arg) (local.get $end)))))))
    (if (call $is (local.get $at) (local.get $word) @"spin")
      (then
        (block $out (loop $next (br_if $out (call $interrupted)) (br $next)))
        (return (i32.const 0))))
    (if (call $is (local.get $at) (local.get $word) @"hang")
      (then (call $hang) (return (i32.const 0))))
    (if (call $is (local.get $at) (local.get $word) @"sleep")
      (then (return (call $sleep (call $number (local.get $arg) (local.get $end))))))
    (if (call $is (local.get $at) (local.get $word) @"clock")
      (then
        (drop (call $clock_time_get (i32.const 0) (i64.const 1) (global.get $WIDE)))
        (return (call $print_number (i64.load (global.get $WIDE))))))
    (if (call $is (local.get $at) (local.get $word) @"random")
      (then
        (drop (call $random_get (global.get $WIDE) (i32.const 8)))
        (return (call $print_number (i64.load (global.get $WIDE))))))

    ;; Frames.
    (if (call $is (local.get $at) (local.get $word) @"send")
      (then (return (call $ask (local.get $arg) (i32.sub (local.get $end) (local.get $arg))))))
    (if (call $is (local.get $at) (local.get $word) @"call")
      (then
        (call $begin)
        (call $put @"c{\22name\22:")
        (call $put_quoted (local.get $arg) (local.get $first))
        (call $put @",\22arguments\22:")
        (call $put (local.get $rest) (i32.sub (local.get $end) (local.get $rest)))
        (call $put_byte (i32.const 125))
        (return (call $ask (global.get $TEXT) (call $written)))))
    (if (call $is (local.get $at) (local.get $word) @"bulk")
      (then
        (local.set $count (call $number (local.get $rest) (local.get $end)))
        (if (i64.gt_u
              (local.get $count)
              (i64.extend_i32_u
                (i32.sub (i32.shl (memory.size) (i32.const 16)) (global.get $HEAP_END))))
          (then
            (local.set $came
              (call $grow (i32.wrap_i64 (i64.shr_u (local.get $count) (i64.const 16)))))
            (if (local.get $came) (then (return (local.get $came))))
            (drop (memory.grow (i32.const 1)))))
        (i32.store8 (global.get $HEAP_END) (i32.load8_u (local.get $arg)))
        (return (call $ask (global.get $HEAP_END) (i32.wrap_i64 (local.get $count))))))
    (if (call $is (local.get $at) (local.get $word) @"wild")
      (then (return (call $ask (i32.const -16) (i32.const 64)))))

    ;; Other commands, and endings.
    (if (call $is (local.get $at) (local.get $word) @"try")
      (then
        (local.set $came (call $command (local.get $arg) (local.get $end)))
        (if (i32.eqz (local.get $came)) (then (return (i32.const 0))))
        (if (i32.eq (local.get $came) (global.get $ENDED)) (then (return (global.get $ENDED))))
        (call $begin)
        (call $put @"errno ")
        (call $put_number (i64.extend_i32_s (local.get $came)))
        (return (call $print_text))))
    (if (call $is (local.get $at) (local.get $word) @"repeat")
      (then
        (local.set $count (call $number (local.get $arg) (local.get $first)))
        (loop $next
          (if (i64.eqz (local.get $count)) (then (return (i32.const 0))))
          (local.set $came (call $command (local.get $rest) (local.get $end)))
          (if (local.get $came) (then (return (local.get $came))))
          (local.set $count (i64.sub (local.get $count) (i64.const 1)))
          (br $next))))
    (if (call $is (local.get $at) (local.get $word) @"raise")
      (then (return (call $end_with_error (local.get $arg) (local.get $end)))))
    (if (call $is (local.get $at) (local.get $word) @"exit")
      (then
        (call $begin)
        (call $put @"s{\22status\22:\22exit\22,\22exit_code\22:")
        (call $put_number (call $number (local.get $arg) (local.get $end)))
        (return (call $end))))
    (if (call $is (local.get $at) (local.get $word) @"leave")
      (then (return (global.get $ENDED))))
    (if (call $is (local.get $at) (local.get $word) @"quit")
      (then (call $proc_exit (i32.wrap_i64 (call $number (local.get $arg) (local.get $end))))))
    (if (call $is (local.get $at) (local.get $word) @"trap") (then (unreachable)))
    (if (call $is (local.get $at) (local.get $word) @"recurse")
      (then (return (call $recurse (i32.const 0)))))
    ;; `print(6 * 7)` is what a runtime runs to prove that it works.
    (if (call $is (local.get $at) (local.get $end) @"print(6 * 7)")
      (then (return (call $print_number (i64.const 42)))))
    (global.get $UNKNOWN)))
