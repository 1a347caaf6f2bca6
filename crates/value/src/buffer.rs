//! Locates the bytes of a buffer and copies them.

/// A buffer in a head: kind, start, size of a piece, number of pieces, and distance between their
/// starts.
pub(super) type Numbers = (u8, usize, usize, usize, usize);

/// The location of a buffer's bytes.
pub(super) struct Place<'b> {
    /// All pieces and the gaps between them.
    bytes: &'b [u8],
    size: usize,
    count: usize,
    distance: usize,
}

impl<'b> Place<'b> {
    pub(super) fn of(numbers: Numbers, beside: &'b [u8], memory: &'b [u8]) -> Option<Self> {
        let (kind, at, size, count, distance) = numbers;
        let all = match kind {
            0 => beside,
            1 => memory,
            _ => return None,
        };
        if size == 0 || count == 0 {
            return Some(Self {
                bytes: &[],
                size: 0,
                count: 0,
                distance: 0,
            });
        }
        let span = (count - 1).checked_mul(distance)?.checked_add(size)?;
        Some(Self {
            bytes: all.get(at..at.checked_add(span)?)?,
            size,
            count,
            distance,
        })
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.size.checked_mul(self.count).map(|length| length as u64)
    }

    /// Returns the bytes without the gaps.
    pub(super) fn copy(&self) -> Vec<u8> {
        if self.count <= 1 || self.distance == self.size {
            return self.bytes.to_vec();
        }
        match self.size {
            8 => self.gather::<8>(),
            4 => self.gather::<4>(),
            size => {
                let mut found = Vec::with_capacity(size * self.count);
                for piece in 0..self.count {
                    let at = piece * self.distance;
                    found.extend_from_slice(&self.bytes[at..at + size]);
                }
                found
            }
        }
    }

    /// Gathers pieces of a size known at compile time.
    fn gather<const N: usize>(&self) -> Vec<u8> {
        let mut found = vec![0; N * self.count];
        for (piece, into) in found.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let at = piece * self.distance;
            into.copy_from_slice(&self.bytes[at..at + N]);
        }
        found
    }
}
