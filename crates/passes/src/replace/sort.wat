;; numpy's quicksort of {type}, with the same result for every input: also for NaNs, which come
;; last, and for keys that are equal but differ in their bits.
;;
;; The partition makes the same exchanges as numpy's, in the same order, without a branch for each
;; element. It compares a block of elements at each end, stores the offsets of those that are on the
;; wrong side, and then exchanges them in pairs.
(module
  (import "env" "memory" (memory 0))
  (import "module" "int heapsort_<{tag}, false>({type}*, long)"
    (func $heapsort (param i32 i32) (result i32)))
  ;; Offsets of elements of the left block that do not belong there, counted from its first element,
  ;; and of the right block, counted from its last.
  (import "state" "64" (global $left i32))
  (import "state" "64" (global $right i32))
  ;; A few elements in order.
  (import "state" "128" (global $ordered i32))
  (global $block i32 (i32.const 64))
  (global $size i32 (i32.const {size}))
  ;; Binary logarithm of the size.
  (global $shift i32 (i32.const {shift}))

  (func (export "int quicksort_<{tag}, false>({type}*, long)") (param $start i32) (param $count i32)
    (call $sort
      (local.get $start)
      (i32.sub
        (i32.add (local.get $start) (i32.shl (local.get $count) (global.get $shift)))
        (global.get $size))
      ;; Twice the binary logarithm.
      (i32.sub
        (i32.const 64)
        (i32.shl (i32.clz (i32.shr_u (local.get $count) (i32.const 1))) (i32.const 1)))))

  ;; Sorts the elements from $first to $last. A negative $depth means that too many partitions were
  ;; uneven.
  (func $sort (param $first i32) (param $last i32) (param $depth i32)
    (local $middle i32)
    (if (i32.lt_s (local.get $depth) (i32.const 0))
      (then
        (drop (call $heapsort
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
        (local.set $middle (call $partition (local.get $first) (local.get $last)))
        (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
        ;; The larger part is sorted here, and the smaller one by the next iteration.
        (if
          (i32.lt_s
            (i32.sub (local.get $middle) (local.get $first))
            (i32.sub (local.get $last) (local.get $middle)))
          (then
            (call $sort
              (i32.add (local.get $middle) (global.get $size))
              (local.get $last)
              (local.get $depth))
            (local.set $last (i32.sub (local.get $middle) (global.get $size))))
          (else
            (call $sort
              (local.get $first)
              (i32.sub (local.get $middle) (global.get $size))
              (local.get $depth))
            (local.set $first (i32.add (local.get $middle) (global.get $size)))))
        (br $again)))
    (call $few (local.get $first) (local.get $last)))

  ;; Sorts up to 16 elements: the place of an element is the number of smaller ones. If two have the
  ;; same place, which equal elements and NaNs have, they are sorted by insertion.
  (func $few (param $first i32) (param $last i32)
    (local $count i32) (local $next i32) (local $place i32) (local $places i32)
    ;; Numbers of the elements of a vector, the distance to those of the next one, the number of
    ;; elements, and the largest element there can be.
    (local $at v128) (local $step v128) (local $end v128) (local $most v128)
    (local $x v128) (local $sum v128)
    (local $v0 v128) (local $v1 v128) (local $v2 v128) (local $v3 v128)
    (local $v4 v128) (local $v5 v128) (local $v6 v128) (local $v7 v128)
    (local.set $count
      (i32.add
        (i32.shr_s (i32.sub (local.get $last) (local.get $first)) (global.get $shift))
        (i32.const 1)))
    (if
      (i32.or
        (i32.lt_s (local.get $count) (i32.const 5))
        ;; Vectors may go beyond the elements, but not beyond the memory's last page.
        (i32.ge_u
          (i32.shr_u (local.get $first) (i32.const 16))
          (i32.sub (memory.size) (i32.const 1))))
      (then
        (call $insert (local.get $first) (local.get $last))
        (return)))
    (local.set $at (v128.const {I} {numbers}))
    (local.set $step (v128.const {I} {steps}))
    (local.set $end ({I}.splat {count}))
    (local.set $most ({V}.splat ({T}.const {most})))
    (local.set $v0
      (v128.bitselect
        (v128.load align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v1
      (v128.bitselect
        (v128.load offset=16 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v2
      (v128.bitselect
        (v128.load offset=32 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v3
      (v128.bitselect
        (v128.load offset=48 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v4
      (v128.bitselect
        (v128.load offset=64 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v5
      (v128.bitselect
        (v128.load offset=80 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v6
      (v128.bitselect
        (v128.load offset=96 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $at ({I}.add (local.get $at) (local.get $step)))
    (local.set $v7
      (v128.bitselect
        (v128.load offset=112 align={size} (local.get $first))
        (local.get $most)
        ({I}.gt_s (local.get $end) (local.get $at))))
    (local.set $next (local.get $first))
    (loop $each
      (local.set $x ({V}.splat ({T}.load (local.get $next))))
      ;; A comparison that holds is -1.
      (local.set $sum
        ({I}.add
          ({I}.add
            ({I}.add
              ({V}.{lt} (local.get $v0) (local.get $x))
              ({V}.{lt} (local.get $v1) (local.get $x)))
            ({I}.add
              ({V}.{lt} (local.get $v2) (local.get $x))
              ({V}.{lt} (local.get $v3) (local.get $x))))
          ({I}.add
            ({I}.add
              ({V}.{lt} (local.get $v4) (local.get $x))
              ({V}.{lt} (local.get $v5) (local.get $x)))
            ({I}.add
              ({V}.{lt} (local.get $v6) (local.get $x))
              ({V}.{lt} (local.get $v7) (local.get $x))))))
      ;; Sums of lanes of 64 bits are in their lower halves.
      (local.set $sum ({I}.neg (local.get $sum)))
      (local.set $sum
        (i32x4.add
          (local.get $sum)
          (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $sum) (local.get $sum))))
      (local.set $place
        (i32.add
          (i32x4.extract_lane 0 (local.get $sum))
          (i32x4.extract_lane 1 (local.get $sum))))
      (local.set $places
        (i32.or (local.get $places) (i32.shl (i32.const 1) (local.get $place))))
      ({T}.store
        (i32.add (global.get $ordered) (i32.shl (local.get $place) (global.get $shift)))
        ({T}.load (local.get $next)))
      (local.set $next (i32.add (local.get $next) (global.get $size)))
      (br_if $each (i32.le_u (local.get $next) (local.get $last))))
    (if (i32.ne (i32.popcnt (local.get $places)) (local.get $count))
      (then
        (call $insert (local.get $first) (local.get $last))
        (return)))
    (local.set $place (global.get $ordered))
    (loop $each
      ({T}.store (local.get $first) ({T}.load (local.get $place)))
      (local.set $place (i32.add (local.get $place) (global.get $size)))
      (local.set $first (i32.add (local.get $first) (global.get $size)))
      (br_if $each (i32.le_u (local.get $first) (local.get $last)))))

  ;; Sorts a few elements by insertion.
  (func $insert (param $first i32) (param $last i32)
    (local $next i32) (local $to i32) (local $key {T}) (local $other {T})
    (local.set $next (i32.add (local.get $first) (global.get $size)))
    (block $done
      (loop $each
        (br_if $done (i32.gt_u (local.get $next) (local.get $last)))
        (local.set $key ({T}.load (local.get $next)))
        (local.set $to (local.get $next))
        (block $found
          ;; A NaN stays.
          (br_if $found ({T}.ne (local.get $key) (local.get $key)))
          (loop $larger
            (br_if $found (i32.le_u (local.get $to) (local.get $first)))
            (br_if $found
              ({T}.{le}
                (local.tee $other ({T}.load (i32.sub (local.get $to) (global.get $size))))
                (local.get $key)))
            ({T}.store (local.get $to) (local.get $other))
            (local.set $to (i32.sub (local.get $to) (global.get $size)))
            (br $larger)))
        ({T}.store (local.get $to) (local.get $key))
        (local.set $next (i32.add (local.get $next) (global.get $size)))
        (br $each))))

  ;; Exchanges two elements if the second is less than the first. NaNs are greater than all others.
  (func $order (param $a i32) (param $b i32)
    (local $x {T}) (local $y {T})
    (local.set $x ({T}.load (local.get $a)))
    (local.set $y ({T}.load (local.get $b)))
    (if
      (i32.and
        ({T}.eq (local.get $y) (local.get $y))
        (i32.eqz ({T}.{le} (local.get $x) (local.get $y))))
      (then
        ({T}.store (local.get $a) (local.get $y))
        ({T}.store (local.get $b) (local.get $x)))))

  ;; Exchanges elements until none before the pivot is greater, and none after it is less. Returns
  ;; the address of the pivot.
  (func $partition (param $first i32) (param $last i32) (result i32)
    (local $pivot {T}) (local $x {T})
    ;; The elements that have not been compared.
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
    (call $order (local.get $first) (local.get $l))
    (call $order (local.get $l) (local.get $last))
    (call $order (local.get $first) (local.get $l))
    (local.set $pivot ({T}.load (local.get $l)))
    (local.set $r (i32.sub (local.get $last) (global.get $size)))
    ({T}.store (local.get $l) ({T}.load (local.get $r)))
    ({T}.store (local.get $r) (local.get $pivot))
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
                      ({T}.{lt} ({T}.load (local.get $l)) (local.get $pivot))))
                  (i32.store8 offset=1 (local.get $left_end) (i32.add (local.get $k) (i32.const 1)))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt} ({T}.load offset={size} (local.get $l)) (local.get $pivot))))
                  (i32.store8 offset=2 (local.get $left_end) (i32.add (local.get $k) (i32.const 2)))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt} ({T}.load offset={size2} (local.get $l)) (local.get $pivot))))
                  (i32.store8 offset=3 (local.get $left_end) (i32.add (local.get $k) (i32.const 3)))
                  (local.set $left_end
                    (i32.sub
                      (local.get $left_end)
                      ({T}.{lt} ({T}.load offset={size3} (local.get $l)) (local.get $pivot))))
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
                      (i32.eqz ({T}.{lt} ({T}.load (local.get $l)) (local.get $pivot)))))
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
                      ({T}.{le} ({T}.load offset={size4} (local.get $r)) (local.get $pivot))))
                  (i32.store8 (local.get $right_end) (i32.add (local.get $k) (i32.const 1)))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le} ({T}.load offset={size3} (local.get $r)) (local.get $pivot))))
                  (i32.store8 (local.get $right_end) (i32.add (local.get $k) (i32.const 2)))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le} ({T}.load offset={size2} (local.get $r)) (local.get $pivot))))
                  (i32.store8 (local.get $right_end) (i32.add (local.get $k) (i32.const 3)))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le} ({T}.load offset={size} (local.get $r)) (local.get $pivot))))
                  (local.set $k (i32.add (local.get $k) (i32.const 4)))
                  (br $compare)))
              (block $end
                (loop $compare
                  (br_if $end (i32.ge_u (local.get $k) (local.get $right_count)))
                  (i32.store8 (local.get $right_end) (local.get $k))
                  (local.set $right_end
                    (i32.add
                      (local.get $right_end)
                      ({T}.{le} ({T}.load (local.get $r)) (local.get $pivot))))
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
              ({T}.load
                (local.tee $left_count
                  (i32.add
                    (local.get $left_from)
                    (i32.shl (i32.load8_u (local.get $left_at)) (global.get $shift))))))
            ({T}.store
              (local.get $left_count)
              ({T}.load
                (local.tee $right_count
                  (i32.sub
                    (local.get $right_from)
                    (i32.shl (i32.load8_u (local.get $right_at)) (global.get $shift))))))
            ({T}.store (local.get $right_count) (local.get $x))
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
          (local.set $x ({T}.load (local.tee $l (i32.add (local.get $l) (global.get $size)))))
          (br_if $up ({T}.{lt} (local.get $x) (local.get $pivot)))
          ;; Numbers are less than a NaN.
          (br_if $up
            (i32.and
              ({T}.ne (local.get $pivot) (local.get $pivot))
              ({T}.eq (local.get $x) (local.get $x)))))
        (loop $down
          (local.set $x ({T}.load (local.tee $r (i32.sub (local.get $r) (global.get $size)))))
          (br_if $down
            (i32.and
              ({T}.eq (local.get $pivot) (local.get $pivot))
              (i32.eqz ({T}.{le} (local.get $x) (local.get $pivot))))))
        (br_if $done (i32.ge_u (local.get $l) (local.get $r)))
        ({T}.store (local.get $r) ({T}.load (local.get $l)))
        ({T}.store (local.get $l) (local.get $x))
        (br $next)))
    (local.set $r (i32.sub (local.get $last) (global.get $size)))
    (local.set $x ({T}.load (local.get $l)))
    ({T}.store (local.get $l) ({T}.load (local.get $r)))
    ({T}.store (local.get $r) (local.get $x))
    (local.get $l)))
