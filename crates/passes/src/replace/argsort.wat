;; numpy's quicksort of the indices of an array of {type}, with the same result for every input. It
;; is like that of the elements, in sort.wat: the same exchanges in the same order, in blocks.
(module
  (import "env" "memory" (memory 0))
  (import "module" "int aheapsort_<{tag}, false>({type}*, long*, long)"
    (func $heapsort (param i32 i32 i32) (result i32)))
  ;; Offsets of indices of the left block that do not belong there, counted from its first one, and
  ;; of the right block, counted from its last.
  (import "state" "64" (global $left i32))
  (import "state" "64" (global $right i32))
  (global $block i32 (i32.const 64))
  ;; Size of an index.
  (global $size i32 (i32.const 4))
  ;; Binary logarithms of the sizes of an index and of a key.
  (global $shift i32 (i32.const 2))
  (global $key_shift i32 (i32.const {shift}))

  (func (export "int aquicksort_<{tag}, false>({type}*, long*, long)")
    (param $keys i32) (param $start i32) (param $count i32)
    (call $sort
      (local.get $keys)
      (local.get $start)
      (i32.sub
        (i32.add (local.get $start) (i32.shl (local.get $count) (global.get $shift)))
        (global.get $size))
      ;; Twice the binary logarithm.
      (i32.sub
        (i32.const 64)
        (i32.shl (i32.clz (i32.shr_u (local.get $count) (i32.const 1))) (i32.const 1)))))

  ;; Sorts the indices from $first to $last. A negative $depth means that too many partitions were
  ;; uneven.
  (func $sort (param $keys i32) (param $first i32) (param $last i32) (param $depth i32)
    (local $middle i32)
    (if (i32.lt_s (local.get $depth) (i32.const 0))
      (then
        (drop (call $heapsort
          (local.get $keys)
          (local.get $first)
          (i32.add
            (i32.shr_s (i32.sub (local.get $last) (local.get $first)) (global.get $shift))
            (i32.const 1))))
        (return)))
    (block $few
      (loop $again
        (br_if $few
          (i32.lt_s
            (i32.sub (local.get $last) (local.get $first))
            (i32.shl (i32.const 16) (global.get $shift))))
        (local.set $middle (call $partition (local.get $keys) (local.get $first) (local.get $last)))
        (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
        ;; The larger part is sorted here, and the smaller one by the next iteration.
        (if
          (i32.lt_s
            (i32.sub (local.get $middle) (local.get $first))
            (i32.sub (local.get $last) (local.get $middle)))
          (then
            (call $sort
              (local.get $keys)
              (i32.add (local.get $middle) (global.get $size))
              (local.get $last)
              (local.get $depth))
            (local.set $last (i32.sub (local.get $middle) (global.get $size))))
          (else
            (call $sort
              (local.get $keys)
              (local.get $first)
              (i32.sub (local.get $middle) (global.get $size))
              (local.get $depth))
            (local.set $first (i32.add (local.get $middle) (global.get $size)))))
        (br $again)))
    (call $insert (local.get $keys) (local.get $first) (local.get $last)))

  ;; Sorts a few indices by insertion.
  (func $insert (param $keys i32) (param $first i32) (param $last i32)
    (local $next i32) (local $to i32) (local $index i32) (local $other i32) (local $key {T})
    (local.set $next (i32.add (local.get $first) (global.get $size)))
    (block $done
      (loop $each
        (br_if $done (i32.gt_u (local.get $next) (local.get $last)))
        (local.set $index (i32.load (local.get $next)))
        (local.set $key
          ({T}.load
            (i32.add
              (local.get $keys)
              (i32.shl (local.get $index) (global.get $key_shift)))))
        (local.set $to (local.get $next))
        (block $found
          ;; A NaN stays.
          (br_if $found ({T}.ne (local.get $key) (local.get $key)))
          (loop $larger
            (br_if $found (i32.le_u (local.get $to) (local.get $first)))
            (local.set $other (i32.load (i32.sub (local.get $to) (global.get $size))))
            (br_if $found
              ({T}.{le}
                ({T}.load
                  (i32.add
                    (local.get $keys)
                    (i32.shl (local.get $other) (global.get $key_shift))))
                (local.get $key)))
            (i32.store (local.get $to) (local.get $other))
            (local.set $to (i32.sub (local.get $to) (global.get $size)))
            (br $larger)))
        (i32.store (local.get $to) (local.get $index))
        (local.set $next (i32.add (local.get $next) (global.get $size)))
        (br $each))))

  ;; Exchanges two indices if the second key is less than the first. NaNs are greater than all
  ;; others.
  (func $order (param $keys i32) (param $a i32) (param $b i32)
    (local $x {T}) (local $y {T}) (local $index i32)
    (local.set $x
      ({T}.load
        (i32.add
          (local.get $keys)
          (i32.shl (i32.load (local.get $a)) (global.get $key_shift)))))
    (local.set $y
      ({T}.load
        (i32.add
          (local.get $keys)
          (i32.shl (i32.load (local.get $b)) (global.get $key_shift)))))
    (if
      (i32.and
        ({T}.eq (local.get $y) (local.get $y))
        (i32.eqz ({T}.{le} (local.get $x) (local.get $y))))
      (then
        (local.set $index (i32.load (local.get $a)))
        (i32.store (local.get $a) (i32.load (local.get $b)))
        (i32.store (local.get $b) (local.get $index)))))

  ;; Exchanges indices until no key before the pivot is greater, and none after it is less. Returns
  ;; the address of the pivot's index.
  (func $partition (param $keys i32) (param $first i32) (param $last i32) (result i32)
    (local $pivot {T}) (local $key {T}) (local $index i32) (local $x i32)
    ;; The indices that have not been compared.
    (local $l i32) (local $r i32)
    ;; Each block: its address, the offsets that were stored, and those that are done.
    (local $left_from i32) (local $left_end i32) (local $left_at i32)
    (local $right_from i32) (local $right_end i32) (local $right_at i32)
    (local $count i32) (local $left_count i32) (local $right_count i32) (local $k i32)

    ;; The pivot is the median of three. It waits in the last place but one.
    (local.set $l
      (i32.add
        (local.get $first)
        (i32.shl
          (i32.shr_u
            (i32.sub (local.get $last) (local.get $first))
            (i32.add (global.get $shift) (i32.const 1)))
          (global.get $shift))))
    (call $order (local.get $keys) (local.get $first) (local.get $l))
    (call $order (local.get $keys) (local.get $l) (local.get $last))
    (call $order (local.get $keys) (local.get $first) (local.get $l))
    (local.set $index (i32.load (local.get $l)))
    (local.set $pivot
      ({T}.load (i32.add (local.get $keys) (i32.shl (local.get $index) (global.get $key_shift)))))
    (local.set $r (i32.sub (local.get $last) (global.get $size)))
    (i32.store (local.get $l) (i32.load (local.get $r)))
    (i32.store (local.get $r) (local.get $index))
    (local.set $l (i32.add (local.get $first) (global.get $size)))
    (local.set $r (i32.sub (local.get $r) (global.get $size)))
    (local.set $left_end (local.tee $left_at (global.get $left)))
    (local.set $right_end (local.tee $right_at (global.get $right)))

    (block $is_nan
      (br_if $is_nan ({T}.ne (local.get $pivot) (local.get $pivot)))
      (block $compared
        (loop $blocks
          (br_if $compared
            (i32.le_s
              (local.tee $count
                (i32.add
                  (i32.shr_s (i32.sub (local.get $r) (local.get $l)) (global.get $shift))
                  (i32.const 1)))
              (i32.const 0)))
          ;; A block is read when the offsets of the one before it are done.
          (local.set $left_count (i32.const 0))
          (local.set $right_count (i32.const 0))
          (if (i32.eq (local.get $left_at) (local.get $left_end))
            (then
              (local.set $left_count
                (select
                  (i32.shr_u (local.get $count) (i32.const 1))
                  (local.get $count)
                  (i32.eq (local.get $right_at) (local.get $right_end))))
              (local.set $left_count
                (select
                  (local.get $left_count)
                  (global.get $block)
                  (i32.lt_u (local.get $left_count) (global.get $block))))))
          (if (i32.eq (local.get $right_at) (local.get $right_end))
            (then
              (local.set $right_count (i32.sub (local.get $count) (local.get $left_count)))
              (local.set $right_count
                (select
                  (local.get $right_count)
                  (global.get $block)
                  (i32.lt_u (local.get $right_count) (global.get $block))))))

          (if (local.get $left_count)
            (then
              (local.set $left_from (local.get $l))
              (local.set $left_at (global.get $left))
              (local.set $left_end (global.get $left))
              (local.set $k (i32.const 0))
              ;; Four at a time. An offset that need not be stored is overwritten by the next one.
              (block $rest
                (loop $compare
                  (br_if $rest
                    (i32.gt_u (i32.add (local.get $k) (i32.const 4)) (local.get $left_count)))
                  (i32.store8 (local.get $left_end) (local.get $k))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load (local.get $l)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (i32.store8 offset=1 (local.get $left_end) (i32.add (local.get $k) (i32.const 1)))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=4 (local.get $l)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (i32.store8 offset=2 (local.get $left_end) (i32.add (local.get $k) (i32.const 2)))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=8 (local.get $l)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (i32.store8 offset=3 (local.get $left_end) (i32.add (local.get $k) (i32.const 3)))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=12 (local.get $l)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (local.set $left_end (i32.add (local.get $left_end) (i32.const 4)))
                  (local.set $l
                    (i32.add (local.get $l) (i32.shl (i32.const 4) (global.get $shift))))
                  (local.set $k (i32.add (local.get $k) (i32.const 4)))
                  (br $compare)))
              (block $end
                (loop $compare
                  (br_if $end (i32.ge_u (local.get $k) (local.get $left_count)))
                  (i32.store8 (local.get $left_end) (local.get $k))
                  (local.set $left_end
                    (i32.add
                      (local.get $left_end)
                      (i32.eqz ({T}.{lt}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load (local.get $l)) (global.get $key_shift))))
                        (local.get $pivot)))))
                  (local.set $l (i32.add (local.get $l) (global.get $size)))
                  (local.set $k (i32.add (local.get $k) (i32.const 1)))
                  (br $compare)))))
          (if (local.get $right_count)
            (then
              (local.set $right_from (local.get $r))
              (local.set $right_at (global.get $right))
              (local.set $right_end (global.get $right))
              (local.set $k (i32.const 0))
              (block $rest
                (loop $compare
                  (br_if $rest
                    (i32.gt_u (i32.add (local.get $k) (i32.const 4)) (local.get $right_count)))
                  (local.set $r
                    (i32.sub (local.get $r) (i32.shl (i32.const 4) (global.get $shift))))
                  (i32.store8 (local.get $right_end) (local.get $k))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=16 (local.get $r)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (i32.store8 (local.get $right_end) (i32.add (local.get $k) (i32.const 1)))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=12 (local.get $r)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (i32.store8 (local.get $right_end) (i32.add (local.get $k) (i32.const 2)))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=8 (local.get $r)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (i32.store8 (local.get $right_end) (i32.add (local.get $k) (i32.const 3)))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load offset=4 (local.get $r)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (local.set $k (i32.add (local.get $k) (i32.const 4)))
                  (br $compare)))
              (block $end
                (loop $compare
                  (br_if $end (i32.ge_u (local.get $k) (local.get $right_count)))
                  (i32.store8 (local.get $right_end) (local.get $k))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le}
                        ({T}.load
                          (i32.add
                            (local.get $keys)
                            (i32.shl (i32.load (local.get $r)) (global.get $key_shift))))
                        (local.get $pivot))))
                  (local.set $r (i32.sub (local.get $r) (global.get $size)))
                  (local.set $k (i32.add (local.get $k) (i32.const 1)))
                  (br $compare)))))

          (local.set $count
            (select
              (i32.sub (local.get $left_end) (local.get $left_at))
              (i32.sub (local.get $right_end) (local.get $right_at))
              (i32.lt_u
                (i32.sub (local.get $left_end) (local.get $left_at))
                (i32.sub (local.get $right_end) (local.get $right_at)))))
          (br_if $blocks (i32.eqz (local.get $count)))
          (loop $exchange
            (local.set $x
              (i32.load
                (local.tee $left_count
                  (i32.add
                    (local.get $left_from)
                    (i32.shl (i32.load8_u (local.get $left_at)) (global.get $shift))))))
            (i32.store
              (local.get $left_count)
              (i32.load
                (local.tee $right_count
                  (i32.sub
                    (local.get $right_from)
                    (i32.shl (i32.load8_u (local.get $right_at)) (global.get $shift))))))
            (i32.store (local.get $right_count) (local.get $x))
            (local.set $left_at (i32.add (local.get $left_at) (i32.const 1)))
            (local.set $right_at (i32.add (local.get $right_at) (i32.const 1)))
            (br_if $exchange
              (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
          (br $blocks)))
      ;; All were compared. What is left is exchanged one after the other: $l and $r are the last
      ;; elements that are done.
      (if (i32.lt_u (local.get $left_at) (local.get $left_end))
        (then
          (local.set $l
            (i32.add
              (local.get $left_from)
              (i32.shl (i32.load8_u (local.get $left_at)) (global.get $shift))))))
      (if (i32.lt_u (local.get $right_at) (local.get $right_end))
        (then
          (local.set $r
            (i32.sub
              (local.get $right_from)
              (i32.shl (i32.load8_u (local.get $right_at)) (global.get $shift)))))))
    (local.set $l (i32.sub (local.get $l) (global.get $size)))
    (local.set $r (i32.add (local.get $r) (global.get $size)))
    (block $done
      (loop $next
        (loop $up
          (local.set $x (i32.load (local.tee $l (i32.add (local.get $l) (global.get $size)))))
          (local.set $key
            ({T}.load (i32.add (local.get $keys) (i32.shl (local.get $x) (global.get $key_shift)))))
          (br_if $up ({T}.{lt} (local.get $key) (local.get $pivot)))
          ;; Numbers are less than a NaN.
          (br_if $up
            (i32.and
              ({T}.ne (local.get $pivot) (local.get $pivot))
              ({T}.eq (local.get $key) (local.get $key)))))
        (loop $down
          (local.set $x (i32.load (local.tee $r (i32.sub (local.get $r) (global.get $size)))))
          (local.set $key
            ({T}.load (i32.add (local.get $keys) (i32.shl (local.get $x) (global.get $key_shift)))))
          (br_if $down
            (i32.and
              ({T}.eq (local.get $pivot) (local.get $pivot))
              (i32.eqz ({T}.{le} (local.get $key) (local.get $pivot))))))
        (br_if $done (i32.ge_u (local.get $l) (local.get $r)))
        (i32.store (local.get $r) (i32.load (local.get $l)))
        (i32.store (local.get $l) (local.get $x))
        (br $next)))
    (local.set $r (i32.sub (local.get $last) (global.get $size)))
    (local.set $x (i32.load (local.get $l)))
    (i32.store (local.get $l) (i32.load (local.get $r)))
    (i32.store (local.get $r) (local.get $x))
    (local.get $l)))
