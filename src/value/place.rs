//! Where the bytes of a buffer are, and copying them.

/// A buffer as a head names it: its kind, where it begins, the size of its pieces, how many of them,
/// and how far apart they begin.
pub(super) type Numbers = (u8, usize, usize, usize, usize);

/// A buffer, by where its bytes are.
pub(super) struct Place<'b> {
    /// All of its pieces and what is between them.
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

    /// Its bytes, without what is between them.
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

    /// The same for pieces of a size that the compiler knows.
    fn gather<const N: usize>(&self) -> Vec<u8> {
        let mut found = vec![0; N * self.count];
        for (piece, into) in found.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let at = piece * self.distance;
            into.copy_from_slice(&self.bytes[at..at + N]);
        }
        found
    }
}
