;; zlib's loop that decompresses, with 64 bits of input at once and copies of 16 bytes. The original
;; function decodes the ends of a block, of the input and of the output, and reports errors.
;;
;; A code has its operation in a byte, its number of bits in a byte, and its value in two bytes. The
;; words in braces are in replace.rs:
;;
;; * `fill` reads bits until there are at least 56.
;; * `length code` and `distance code` look up the code that comes next.
;; * `take` removes the bits of the code, and `take more` the bits that follow it.
;; * `value` is the value of the code and of the bits that follow it.
;; * `literal` writes the byte that the code stands for.
(module
  (import "env" "memory" (memory 0))
  (import "original" "inflate_fast" (func $original (param i32 i32)))

  (func (export "inflate_fast") (param $stream i32) (param $start i32)
    (local $state i32) (local $in i32) (local $last_in i32)
    (local $begin i32) (local $out i32) (local $last_out i32) (local $end i32)
    (local $lengths i32) (local $length_mask i32) (local $length i32)
    (local $distances i32) (local $distance_mask i32) (local $distance i32)
    (local $code i32) (local $from i32)
    ;; Bits of the input, the next one lowest, and their number. Higher ones are zero or those that
    ;; come next. Then both before the last code.
    (local $hold i64) (local $bits i64) (local $hold_before i64) (local $bits_before i64)
    (if
      (i32.or
        (i32.lt_u (i32.load offset=4 (local.get $stream)) (i32.const 64))
        (i32.lt_u (i32.load offset=16 (local.get $stream)) (i32.const 1024)))
      (then
        (call $original (local.get $stream) (local.get $start))
        (return)))
    (local.set $state (i32.load offset=28 (local.get $stream)))
    (local.set $in (i32.load (local.get $stream)))
    ;; An iteration reads less than 32 bytes and writes less than 300. The original function needs 6
    ;; and 258 after it.
    (local.set $last_in
      (i32.sub
        (i32.add (local.get $in) (i32.load offset=4 (local.get $stream)))
        (i32.const 32)))
    (local.set $out (i32.load offset=12 (local.get $stream)))
    (local.set $last_out
      (i32.sub
        (i32.add (local.get $out) (i32.load offset=16 (local.get $stream)))
        (i32.const 600)))
    (local.set $begin
      (i32.sub
        (local.get $out)
        (i32.sub (local.get $start) (i32.load offset=16 (local.get $stream)))))
    (local.set $hold (i64.load32_u offset=60 (local.get $state)))
    (local.set $bits (i64.load32_u offset=64 (local.get $state)))
    (local.set $lengths (i32.load offset=80 (local.get $state)))
    (local.set $distances (i32.load offset=84 (local.get $state)))
    (local.set $length_mask
      (i32.sub
        (i32.shl (i32.const 1) (i32.load offset=88 (local.get $state)))
        (i32.const 1)))
    (local.set $distance_mask
      (i32.sub
        (i32.shl (i32.const 1) (i32.load offset=92 (local.get $state)))
        (i32.const 1)))
    (block $leave
      (block $other
        (loop $next
          (br_if $leave
            (i32.or
              (i32.gt_u (local.get $in) (local.get $last_in))
              (i32.gt_u (local.get $out) (local.get $last_out))))
          {fill}
          (local.set $code {length code})
          ;; Up to three literals have up to 45 bits.
          (block $match
            (br_if $match (i32.and (local.get $code) (i32.const 255)))
            {literal}
            (local.set $code {length code})
            (br_if $match (i32.and (local.get $code) (i32.const 255)))
            {literal}
            (local.set $code {length code})
            (br_if $match (i32.and (local.get $code) (i32.const 255)))
            {literal}
            (br $next))
          ;; A length and a distance have up to 48 bits.
          {fill}
          (local.set $hold_before (local.get $hold))
          (local.set $bits_before (local.get $bits))
          (if (i32.eqz (i32.and (local.get $code) (i32.const 16)))
            (then
              ;; The end of the block or an error, or else the place of a second table.
              (br_if $other (i32.and (local.get $code) (i32.const 64)))
              {take}
              (local.set $code
                (i32.load
                  (i32.add (local.get $lengths) (i32.shl {value} (i32.const 2)))))
              (if (i32.eqz (i32.and (local.get $code) (i32.const 255)))
                (then
                  {literal}
                  (br $next)))
              (br_if $other (i32.eqz (i32.and (local.get $code) (i32.const 16))))))
          {take}
          (local.set $length {value})
          {take more}
          (local.set $code {distance code})
          (if (i32.eqz (i32.and (local.get $code) (i32.const 16)))
            (then
              (br_if $other (i32.and (local.get $code) (i32.const 64)))
              {take}
              (local.set $code
                (i32.load
                  (i32.add (local.get $distances) (i32.shl {value} (i32.const 2)))))
              (br_if $other (i32.eqz (i32.and (local.get $code) (i32.const 16))))))
          {take}
          (local.set $distance {value})
          {take more}
          (local.set $from (i32.sub (local.get $out) (local.get $begin)))
          (if (i32.gt_u (local.get $distance) (local.get $from))
            (then
              ;; Bytes before the output are in the window, a ring.
              (local.set $from (i32.sub (local.get $distance) (local.get $from)))
              (br_if $other
                (i32.gt_u (local.get $from) (i32.load offset=48 (local.get $state))))
              (local.set $end
                (i32.add
                  (local.get $out)
                  (select
                    (local.get $from)
                    (local.get $length)
                    (i32.lt_u (local.get $from) (local.get $length)))))
              (local.set $length
                (i32.sub
                  (local.get $length)
                  (i32.sub (local.get $end) (local.get $out))))
              (local.set $from
                (i32.sub (i32.load offset=52 (local.get $state)) (local.get $from)))
              (loop $byte
                (i32.store8
                  (local.get $out)
                  (i32.load8_u
                    (i32.add
                      (i32.load offset=56 (local.get $state))
                      (i32.add
                        (local.get $from)
                        (i32.and
                          (i32.shr_s (local.get $from) (i32.const 31))
                          (i32.load offset=44 (local.get $state)))))))
                (local.set $from (i32.add (local.get $from) (i32.const 1)))
                (local.set $out (i32.add (local.get $out) (i32.const 1)))
                (br_if $byte (i32.lt_u (local.get $out) (local.get $end))))
              (br_if $next (i32.eqz (local.get $length)))))
          ;; Writes up to 15 bytes more, which the next bytes replace.
          (local.set $end (i32.add (local.get $out) (local.get $length)))
          (block $far
            (br_if $far (i32.ge_u (local.get $distance) (i32.const 16)))
            ;; The bytes at twice the distance are the same.
            (loop $double
              (v128.store
                (local.get $out)
                (v128.load (i32.sub (local.get $out) (local.get $distance))))
              (local.set $out (i32.add (local.get $out) (local.get $distance)))
              (local.set $distance (i32.shl (local.get $distance) (i32.const 1)))
              (br_if $far (i32.ge_u (local.get $distance) (i32.const 16)))
              (br_if $double (i32.lt_u (local.get $out) (local.get $end)))))
          (block $copied
            (br_if $copied (i32.ge_u (local.get $out) (local.get $end)))
            (loop $copy
              (v128.store
                (local.get $out)
                (v128.load (i32.sub (local.get $out) (local.get $distance))))
              (local.set $out (i32.add (local.get $out) (i32.const 16)))
              (br_if $copy (i32.lt_u (local.get $out) (local.get $end)))))
          (local.set $out (local.get $end))
          (br $next)))
      (local.set $hold (local.get $hold_before))
      (local.set $bits (local.get $bits_before)))
    ;; Gives whole bytes back.
    (local.set $in
      (i32.sub
        (local.get $in)
        (i32.wrap_i64 (i64.shr_u (local.get $bits) (i64.const 3)))))
    (local.set $bits (i64.and (local.get $bits) (i64.const 7)))
    (i32.store (local.get $stream) (local.get $in))
    (i32.store offset=4
      (local.get $stream)
      (i32.add (i32.sub (local.get $last_in) (local.get $in)) (i32.const 32)))
    (i32.store offset=12 (local.get $stream) (local.get $out))
    (i32.store offset=16
      (local.get $stream)
      (i32.add (i32.sub (local.get $last_out) (local.get $out)) (i32.const 600)))
    (i64.store32 offset=60
      (local.get $state)
      (i64.and
        (local.get $hold)
        (i64.sub (i64.shl (i64.const 1) (local.get $bits)) (i64.const 1))))
    (i64.store32 offset=64 (local.get $state) (local.get $bits))
    (call $original (local.get $stream) (local.get $start))))
