;; The C library's functions that compare and search bytes, 16 at a time.
;;
;; A vector whose address is a multiple of 16 never reaches beyond the memory, so searches read
;; whole vectors, and ignore the bytes before and behind those to search.
(module
  (import "env" "memory" (memory 0))

  ;; The difference of the first two bytes that differ. Fewer than 16 are compared one by one, since
  ;; strings in a sort mostly differ early.
  (func (export "memcmp") (param $a i32) (param $b i32) (param $count i32) (result i32)
    (local $difference i32)
    (if (i32.ge_u (local.get $count) (i32.const 16))
      (then (return (call $many (local.get $a) (local.get $b) (local.get $count)))))
    (block $end
      (br_if $end (i32.eqz (local.get $count)))
      (loop $next
        (local.set $difference
          (i32.sub (i32.load8_u (local.get $a)) (i32.load8_u (local.get $b))))
        (br_if $end (local.get $difference))
        (local.set $a (i32.add (local.get $a) (i32.const 1)))
        (local.set $b (i32.add (local.get $b) (i32.const 1)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br_if $next (local.get $count))))
    (local.get $difference))

  (func $many (param $a i32) (param $b i32) (param $count i32) (result i32)
    (local $last i32) (local $mask i32)
    (local.set $last (i32.sub (i32.add (local.get $a) (local.get $count)) (i32.const 16)))
    (block $differ
      (loop $next
        (br_if $differ
          (v128.any_true (v128.xor (v128.load (local.get $a)) (v128.load (local.get $b)))))
        (local.set $a (i32.add (local.get $a) (i32.const 16)))
        (local.set $b (i32.add (local.get $b) (i32.const 16)))
        (br_if $next (i32.lt_u (local.get $a) (local.get $last))))
      ;; The last vector, of which a part has been compared.
      (local.set $b (i32.sub (local.get $b) (i32.sub (local.get $a) (local.get $last))))
      (local.set $a (local.get $last)))
    (local.set $mask
      (i32.xor
        (i8x16.bitmask (i8x16.eq (v128.load (local.get $a)) (v128.load (local.get $b))))
        (i32.const 0xffff)))
    (if (i32.eqz (local.get $mask)) (then (return (i32.const 0))))
    (local.set $last (i32.ctz (local.get $mask)))
    (i32.sub
      (i32.load8_u (i32.add (local.get $a) (local.get $last)))
      (i32.load8_u (i32.add (local.get $b) (local.get $last)))))

  (func (export "memchr") (param $at i32) (param $byte i32) (param $count i32) (result i32)
    (local $bytes v128) (local $mask i32) (local $before i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 0))))
    (local.set $bytes (i8x16.splat (local.get $byte)))
    (local.set $before (i32.and (local.get $at) (i32.const 15)))
    (local.set $mask
      (i32.shr_u
        (i8x16.bitmask
          (i8x16.eq
            (v128.load (i32.sub (local.get $at) (local.get $before)))
            (local.get $bytes)))
        (local.get $before)))
    (block $found
      (br_if $found (local.get $mask))
      ;; From here on, each vector begins with a byte to search.
      (local.set $before (i32.sub (i32.const 16) (local.get $before)))
      (block $none
        (br_if $none (i32.le_u (local.get $count) (local.get $before)))
        (local.set $at (i32.add (local.get $at) (local.get $before)))
        (local.set $count (i32.sub (local.get $count) (local.get $before)))
        (block $here
          (loop $next
            (br_if $here
              (v128.any_true (i8x16.eq (v128.load (local.get $at)) (local.get $bytes))))
            (br_if $none (i32.le_u (local.get $count) (i32.const 16)))
            (local.set $at (i32.add (local.get $at) (i32.const 16)))
            (local.set $count (i32.sub (local.get $count) (i32.const 16)))
            (br $next)))
        (local.set $mask
          (i8x16.bitmask (i8x16.eq (v128.load (local.get $at)) (local.get $bytes))))
        (br $found))
      (return (i32.const 0)))
    (select
      (i32.add (local.get $at) (i32.ctz (local.get $mask)))
      (i32.const 0)
      (i32.lt_u (i32.ctz (local.get $mask)) (local.get $count))))

  (func (export "__memrchr") (param $first i32) (param $byte i32) (param $count i32) (result i32)
    (local $bytes v128) (local $mask i32) (local $at i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 0))))
    (local.set $bytes (i8x16.splat (local.get $byte)))
    (local.set $at (i32.sub (i32.add (local.get $first) (local.get $count)) (i32.const 1)))
    ;; Without the bytes behind the last one.
    (local.set $mask
      (i32.sub (i32.shl (i32.const 2) (i32.and (local.get $at) (i32.const 15))) (i32.const 1)))
    (local.set $at (i32.and (local.get $at) (i32.const -16)))
    (local.set $mask
      (i32.and
        (i8x16.bitmask (i8x16.eq (v128.load (local.get $at)) (local.get $bytes)))
        (local.get $mask)))
    (block $found
      (br_if $found (local.get $mask))
      (block $none
        (block $here
          (loop $next
            (br_if $none (i32.le_u (local.get $at) (local.get $first)))
            (local.set $at (i32.sub (local.get $at) (i32.const 16)))
            (br_if $here
              (v128.any_true (i8x16.eq (v128.load (local.get $at)) (local.get $bytes))))
            (br $next)))
        (local.set $mask
          (i8x16.bitmask (i8x16.eq (v128.load (local.get $at)) (local.get $bytes))))
        (br $found))
      (return (i32.const 0)))
    (local.set $at
      (i32.add (local.get $at) (i32.sub (i32.const 31) (i32.clz (local.get $mask)))))
    (select (local.get $at) (i32.const 0) (i32.ge_u (local.get $at) (local.get $first)))))
