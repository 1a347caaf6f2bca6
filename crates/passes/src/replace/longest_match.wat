;; zlib's search for the longest match of the bytes to compress, with the same result. It compares
;; two bytes at the ends of a match at once, and eight between them.
(module
  (import "env" "memory" (memory 0))

  (func (export "longest_match") (param $state i32) (param $match i32) (result i32)
    (local $chain i32) (local $best i32) (local $nice i32) (local $lookahead i32)
    (local $window i32) (local $mask i32) (local $previous i32) (local $limit i32)
    (local $scan i32) (local $start i32) (local $end i32) (local $at i32) (local $count i32)
    (local $differ i64)
    (local.set $chain (i32.load offset=124 (local.get $state)))
    (local.set $best (i32.load offset=120 (local.get $state)))
    ;; With a good match, fewer are searched.
    (if (i32.ge_u (local.get $best) (i32.load offset=140 (local.get $state)))
      (then (local.set $chain (i32.shr_u (local.get $chain) (i32.const 2)))))
    (local.set $lookahead (i32.load offset=116 (local.get $state)))
    (local.set $nice (i32.load offset=144 (local.get $state)))
    (if (i32.gt_u (local.get $nice) (local.get $lookahead))
      (then (local.set $nice (local.get $lookahead))))
    (local.set $window (i32.load offset=56 (local.get $state)))
    (local.set $mask (i32.load offset=52 (local.get $state)))
    (local.set $previous (i32.load offset=64 (local.get $state)))
    (local.set $scan (i32.load offset=108 (local.get $state)))
    ;; Matches up to this place are too far away.
    (local.set $limit
      (i32.add
        (i32.sub (local.get $scan) (i32.load offset=44 (local.get $state)))
        (i32.const 262)))
    (if (i32.gt_u (local.get $limit) (local.get $scan))
      (then (local.set $limit (i32.const 0))))
    (local.set $scan (i32.add (local.get $window) (local.get $scan)))
    (local.set $start (i32.load16_u (local.get $scan)))
    (local.set $end
      (i32.load16_u (i32.sub (i32.add (local.get $scan) (local.get $best)) (i32.const 1))))
    (block $done
      (loop $again
        (block $candidate
          (loop $next
            (local.set $at (i32.add (local.get $window) (local.get $match)))
            (if
              (i32.eq
                (i32.load16_u
                  (i32.sub (i32.add (local.get $at) (local.get $best)) (i32.const 1)))
                (local.get $end))
              (then
                (br_if $candidate (i32.eq (i32.load16_u (local.get $at)) (local.get $start)))))
            (local.set $match
              (i32.load16_u
                (i32.add
                  (local.get $previous)
                  (i32.shl (i32.and (local.get $match) (local.get $mask)) (i32.const 1)))))
            (br_if $done (i32.le_u (local.get $match) (local.get $limit)))
            (local.set $chain (i32.sub (local.get $chain) (i32.const 1)))
            (br_if $next (local.get $chain)))
          (br $done))
        ;; The hash of the first three bytes is equal, and two of them are.
        (local.set $count (i32.const 3))
        (block $end
          (loop $equal
            (local.set $differ
              (i64.xor
                (i64.load (i32.add (local.get $at) (local.get $count)))
                (i64.load (i32.add (local.get $scan) (local.get $count)))))
            (br_if $end (i64.ne (local.get $differ) (i64.const 0)))
            (local.set $count (i32.add (local.get $count) (i32.const 8)))
            (br_if $equal (i32.lt_u (local.get $count) (i32.const 258)))))
        ;; If none differ, up to the longest match that can be encoded.
        (local.set $count
          (if (result i32) (i64.eqz (local.get $differ))
            (then (i32.const 258))
            (else
              (i32.add
                (local.get $count)
                (i32.shr_u
                  (i32.wrap_i64 (i64.ctz (local.get $differ)))
                  (i32.const 3))))))
        (if (i32.gt_s (local.get $count) (local.get $best))
          (then
            (i32.store offset=112 (local.get $state) (local.get $match))
            (local.set $best (local.get $count))
            (br_if $done (i32.ge_s (local.get $count) (local.get $nice)))
            (local.set $end
              (i32.load16_u
                (i32.sub (i32.add (local.get $scan) (local.get $best)) (i32.const 1))))))
        (local.set $match
          (i32.load16_u
            (i32.add
              (local.get $previous)
              (i32.shl (i32.and (local.get $match) (local.get $mask)) (i32.const 1)))))
        (br_if $done (i32.le_u (local.get $match) (local.get $limit)))
        (local.set $chain (i32.sub (local.get $chain) (i32.const 1)))
        (br_if $again (local.get $chain))))
    (select
      (local.get $best)
      (local.get $lookahead)
      (i32.lt_u (local.get $best) (local.get $lookahead))))
)
