//! Tests of the contract that all systems' implementations share.
#![expect(
    unsafe_code,
    reason = "calls what maps memory, with files that stay as they are"
)]
#![expect(
    clippy::large_stack_arrays,
    reason = "a few pages, for which a test's stack has room"
)]

use std::io::Write;
use std::sync::Arc;

/// Page size: the largest page of all systems that are tested.
#[cfg(not(windows))]
const PAGE: usize = 16 << 10;
/// Alignment of mappings.
#[cfg(windows)]
const PAGE: usize = 64 << 10;

/// Whether single stored pages can be mapped.
fn has_small_pages() -> bool {
    #[cfg(unix)]
    return rustix::param::page_size() == crate::HOST_PAGE;
    #[cfg(not(unix))]
    false
}

/// Tests of one system's `Backing`, `Region` and files.
macro_rules! contract {
    ($system:ident) => {
        mod $system {
            use super::super::$system::{
                Backing, MAPS_IMAGES, Region, anonymous_file, private_pages, process_number,
                read_exact_at, release, reserve, watch, without_holes, write_all_at, written_pages,
            };
            use super::super::{WATCHED, skip};
            use super::*;

            fn backing(pages: usize, byte: u8) -> Arc<Backing> {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&vec![0; PAGE]).unwrap();
                file.write_all(&vec![byte; pages * PAGE]).unwrap();
                Arc::new(Backing::new(file, PAGE as u64, pages * PAGE).unwrap())
            }

            #[test]
            fn a_region_shows_its_image_and_grows_by_zeros() {
                let image = backing(3, 7);
                let mut region = Region::reserve().unwrap();
                assert_eq!(region.len(), 0);
                region.map(&image).unwrap();
                assert!(region.holds(&image) && !region.holds(&backing(3, 7)));
                assert!(region.bytes() == [7; 3 * PAGE]);
                region.grow(5 * PAGE).unwrap();
                assert!(region.bytes()[..3 * PAGE] == [7; 3 * PAGE]);
                assert!(region.bytes()[3 * PAGE..] == [0; 2 * PAGE]);
                assert_eq!(region.base(), region.bytes().as_mut_ptr());
                // Growing never shrinks a region, and is limited.
                region.grow(PAGE).unwrap();
                assert_eq!(region.len(), 5 * PAGE);
                assert!(region.grow(Region::CAPACITY + 1).is_err());
            }

            #[test]
            fn only_a_system_that_maps_reserves_room_for_it() {
                let region = Region::reserve().unwrap();
                assert_eq!(region.extent().is_some(), MAPS_IMAGES && has_small_pages());
                assert_eq!(Region::RESERVED > Region::CAPACITY, MAPS_IMAGES);
                assert!(MAPS_IMAGES || Region::RESERVED == 0);
            }

            #[test]
            fn a_file_has_the_same_bytes_without_holes() {
                let file = tempfile::tempfile().unwrap();
                reserve(&file, 2 * PAGE as u64).unwrap();
                file.set_len(4 * PAGE as u64).unwrap();
                write_all_at(&file, PAGE as u64, &[&[7; PAGE]]).unwrap();
                let whole = without_holes(file).unwrap();
                let mut bytes = vec![1; 4 * PAGE];
                read_exact_at(&whole, 0, &mut bytes).unwrap();
                assert!(bytes[PAGE..2 * PAGE] == [7; PAGE]);
                bytes.drain(PAGE..2 * PAGE);
                assert!(bytes == [0; 3 * PAGE]);
            }

            #[test]
            fn a_process_has_one_number() {
                let elsewhere = std::thread::spawn(process_number).join().unwrap();
                assert_eq!(elsewhere, process_number());
                assert_ne!(elsewhere, 0);
            }

            #[test]
            fn a_reset_leaves_nothing_of_the_guest() {
                let image = backing(4, 7);
                let mut region = Region::reserve().unwrap();
                region.map(&image).unwrap();
                region.grow(9 * PAGE).unwrap();
                region.bytes().fill(1);
                region.reset().unwrap();
                assert!(region.bytes() == [7; 4 * PAGE]);
                region.grow(9 * PAGE).unwrap();
                assert!(region.bytes()[4 * PAGE..] == vec![0; 5 * PAGE]);
                // Mapping another image also clears the memory.
                region.bytes().fill(1);
                region.map(&backing(2, 9)).unwrap();
                region.grow(9 * PAGE).unwrap();
                assert!(region.bytes()[..2 * PAGE] == [9; 2 * PAGE]);
                assert!(region.bytes()[2 * PAGE..] == vec![0; 7 * PAGE]);
            }

            #[test]
            fn an_image_is_no_longer_than_its_file() {
                let image = backing(2, 7);
                assert_eq!(image.len(), 2 * PAGE);
                let mut target = [1; 2 * PAGE];
                assert_eq!(image.read(PAGE, &mut target), PAGE);
                assert!(target[..PAGE] == [7; PAGE] && target[PAGE..] == [1; PAGE]);
                assert_eq!(image.read(5 * PAGE, &mut target), 0);
                for (offset, length) in [(0, 0), (0, 2 * PAGE), (PAGE as u64, PAGE)] {
                    let mut file = tempfile::tempfile().unwrap();
                    file.write_all(&[7; PAGE]).unwrap();
                    assert!(Backing::new(file, offset, length).is_err());
                }
            }

            #[test]
            fn pages_are_mapped_over_the_regions_own_memory_only() {
                let image = backing(8, 7);
                let mut region = Region::reserve().unwrap();
                region.map(&image).unwrap();
                let mut other = Region::reserve().unwrap();
                other.map(&image).unwrap();
                let file = anonymous_file().unwrap();
                write_all_at(&file, 0, &[&[3; 4 * PAGE]]).unwrap();
                let Some(extent) = region.extent() else {
                    if MAPS_IMAGES {
                        skip("pages of 4 KiB");
                    }
                    return;
                };
                let page = PAGE as u64;
                let map_over = |target: &mut [u8], at| {
                    // SAFETY: the file does not change during the test.
                    unsafe { extent.map_over(target, &file, at) }
                };
                map_over(&mut region.bytes()[2 * PAGE..5 * PAGE], page).unwrap();
                assert!(region.bytes()[..2 * PAGE] == [7; 2 * PAGE]);
                assert!(region.bytes()[2 * PAGE..5 * PAGE] == [3; 3 * PAGE]);
                assert!(region.bytes()[5 * PAGE..] == [7; 3 * PAGE]);
                // Writes are copy-on-write.
                region.bytes()[2 * PAGE] = 9;
                let mut there = [0];
                read_exact_at(&file, page, &mut there).unwrap();
                assert_eq!(there, [3]);

                let refused = |target: &mut [u8], at| {
                    let before = target.to_vec();
                    assert!(map_over(target, at).is_err());
                    assert!(before == target);
                };
                refused(&mut other.bytes()[..PAGE], 0);
                refused(&mut vec![5; 3 * PAGE], 0);
                refused(&mut region.bytes()[..PAGE + 1], 0);
                refused(&mut region.bytes()[1..=PAGE], 0);
                refused(&mut region.bytes()[..2 * PAGE], 3 * page);
                refused(&mut region.bytes()[..PAGE], u64::MAX - page + 1);
                // The address space is not released while an extent may map into it.
                let base = region.base();
                drop(region);
                let more: Vec<_> = (0..4).map(|_| Region::reserve().unwrap()).collect();
                assert!(more.iter().all(|more| more.base() != base));
            }

            #[test]
            fn what_was_mapped_goes_with_the_guest() {
                let image = backing(8, 7);
                let mut region = Region::reserve().unwrap();
                region.map(&image).unwrap();
                region.grow(12 * PAGE).unwrap();
                let file = anonymous_file().unwrap();
                write_all_at(&file, 0, &[&[3; 4 * PAGE]]).unwrap();
                let Some(extent) = region.extent() else {
                    if MAPS_IMAGES {
                        skip("pages of 4 KiB");
                    }
                    return;
                };
                // Inside the image, across its end, and after it.
                for start in [1, 6, 10] {
                    let target = start * PAGE..(start + 3).min(12) * PAGE;
                    // SAFETY: the file does not change during the test.
                    unsafe { extent.map_over(&mut region.bytes()[target], &file, 0).unwrap() };
                }
                region.bytes()[PAGE] = 9;
                region.rest().unwrap();
                assert!(region.holds(&image) && region.bytes() == [7; 8 * PAGE]);
                region.grow(12 * PAGE).unwrap();
                assert!(region.bytes()[8 * PAGE..] == [0; 4 * PAGE]);
                let mut there = [0; PAGE];
                read_exact_at(&file, 0, &mut there).unwrap();
                assert!(there == [3; PAGE]);
            }

            #[test]
            fn what_was_written_is_told_in_full_or_not_at_all() {
                let image = backing(16, 7);
                let mut region = Region::reserve().unwrap();
                region.map(&image).unwrap();
                let base = region.base() as usize;
                let all = base..base + region.len();
                let page = |number: usize| base + number * PAGE..base + (number + 1) * PAGE;
                let is_watched = watch(all.clone());
                if stringify!($system) == "linux" && !is_watched {
                    skip(WATCHED);
                }
                for written in [3, 9] {
                    region.bytes()[written * PAGE..][..PAGE].fill(1);
                }
                let private = private_pages(all.clone(), usize::MAX);
                if stringify!($system) == "linux" && private.is_none() {
                    skip("a kernel that lists private pages");
                }
                assert!(private.is_none_or(|found| found == [page(3), page(9)]));
                assert!(private_pages(all.clone(), PAGE).is_none());
                let written = written_pages(all.clone(), true);
                assert_eq!(written.is_some(), is_watched);
                assert!(written.is_none_or(|found| found == [page(3), page(9)]));
                region.bytes()[4 * PAGE..][..PAGE].fill(1);
                let written = written_pages(all, false);
                assert!(written.is_none_or(|found| found == [page(4)]));
            }

            #[test]
            fn files_hold_what_was_written_where_it_was() {
                let file = anonymous_file().unwrap();
                let pages: Vec<[u8; 8]> = (0..3_000u64).map(u64::to_le_bytes).collect();
                let slices: Vec<&[u8]> = pages.iter().map(<[u8; 8]>::as_slice).collect();
                write_all_at(&file, 5, &slices).unwrap();
                let mut all = vec![1; 3_000 * 8 + 5];
                read_exact_at(&file, 0, &mut all).unwrap();
                assert!(all[..5] == [0; 5] && all[5..] == pages.concat());
                assert!(read_exact_at(&file, 6, &mut all).is_err());
                release(&file, 0, 5);
                read_exact_at(&file, 5, &mut all[5..]).unwrap();
                assert!(all[5..] == pages.concat());
            }
        }
    };
}

#[cfg(memory = "linux")]
contract!(linux);
contract!(portable);
#[cfg(unix)]
contract!(unix);
#[cfg(windows)]
contract!(windows);
