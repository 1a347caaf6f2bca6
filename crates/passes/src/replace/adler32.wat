;; zlib's Adler-32 checksum, 16 bytes at a time.
(module
  (import "env" "memory" (memory 0))
  (import "original" "adler32_z" (func $original (param i32 i32 i32) (result i32)))

  (func (export "adler32_z") (param $adler i32) (param $at i32) (param $count i32) (result i32)
    (local $a i32) (local $b i32) (local $end i32) (local $bytes v128)
    ;; The sum of bytes, the sum of that before each vector, and the sum of bytes by their place.
    (local $sum v128) (local $sums v128) (local $placed v128)
    ;; Sums of few bytes may exceed the modulus in a way of their own.
    (if (i32.or (i32.lt_u (local.get $count) (i32.const 64)) (i32.eqz (local.get $at)))
      (then
        (return (call $original (local.get $adler) (local.get $at) (local.get $count)))))
    (local.set $a (i32.and (local.get $adler) (i32.const 0xffff)))
    (local.set $b (i32.shr_u (local.get $adler) (i32.const 16)))
    (loop $part
      ;; As many bytes as cannot overflow.
      (local.set $end
        (select
          (i32.const 5552)
          (i32.and (local.get $count) (i32.const -16))
          (i32.gt_u (local.get $count) (i32.const 5552))))
      (local.set $count (i32.sub (local.get $count) (local.get $end)))
      (local.set $b (i32.add (local.get $b) (i32.mul (local.get $a) (local.get $end))))
      (local.set $end (i32.add (local.get $at) (local.get $end)))
      (local.set $sum (v128.const i32x4 0 0 0 0))
      (local.set $sums (v128.const i32x4 0 0 0 0))
      (local.set $placed (v128.const i32x4 0 0 0 0))
      (loop $next
        (local.set $bytes (v128.load (local.get $at)))
        (local.set $sums (i32x4.add (local.get $sums) (local.get $sum)))
        (local.set $sum
          (i32x4.add
            (local.get $sum)
            (i32x4.extadd_pairwise_i16x8_u
              (i16x8.extadd_pairwise_i8x16_u (local.get $bytes)))))
        (local.set $placed
          (i32x4.add
            (local.get $placed)
            (i32x4.add
              (i32x4.dot_i16x8_s
                (i16x8.extend_low_i8x16_u (local.get $bytes))
                (v128.const i16x8 16 15 14 13 12 11 10 9))
              (i32x4.dot_i16x8_s
                (i16x8.extend_high_i8x16_u (local.get $bytes))
                (v128.const i16x8 8 7 6 5 4 3 2 1)))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
      (local.set $a
        (i32.rem_u (i32.add (local.get $a) (call $total (local.get $sum))) (i32.const 65521)))
      (local.set $b
        (i32.rem_u
          (i32.add
            (local.get $b)
            (call $total
              (i32x4.add
                (local.get $placed)
                (i32x4.shl (local.get $sums) (i32.const 4)))))
          (i32.const 65521)))
      (br_if $part (i32.ge_u (local.get $count) (i32.const 16))))
    (call $original
      (i32.or (local.get $a) (i32.shl (local.get $b) (i32.const 16)))
      (local.get $at)
      (local.get $count)))

  (func $total (param $sum v128) (result i32)
    (i32.add
      (i32.add
        (i32x4.extract_lane 0 (local.get $sum))
        (i32x4.extract_lane 1 (local.get $sum)))
      (i32.add
        (i32x4.extract_lane 2 (local.get $sum))
        (i32x4.extract_lane 3 (local.get $sum)))))
)
