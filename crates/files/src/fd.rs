//! Calls on descriptors: `fd_*`.

use crate::content::MAX_LEN;
use crate::descriptors::{Open, Target};
use crate::errno::Errno;
use crate::files::Files;
use crate::node::{Body, Device, Node};
use crate::types::{FdFlags, FdStat, Kind, SetTime, SetTimes, Stat, Whence, rights};
use crate::world::World;

/// The node of a descriptor with its kind.
enum On {
    Own(u64),
    Packed(Node),
    Device(Device),
}

impl Files {
    fn node_of(&self, fd: u32) -> Result<(&Open, Node), Errno> {
        let open = self.descriptors.get(fd)?;
        match open.target {
            Target::Node(node) => Ok((open, node)),
            Target::Foreign(_) => Err(Errno::Badf),
        }
    }

    /// The file or device that a descriptor is open on.
    fn file_of(&self, fd: u32) -> Result<(&Open, On), Errno> {
        let (open, node) = self.node_of(fd)?;
        if !node.is_own() {
            let is_file = self.kind(node)? == Kind::File;
            return is_file.then_some((open, On::Packed(node))).ok_or(Errno::Badf);
        }
        match &self.inode(node.number)?.body {
            Body::File(_) => Ok((open, On::Own(node.number))),
            Body::Device(device) => Ok((open, On::Device(*device))),
            Body::Dir(_) | Body::Link(_) | Body::Portal(_) => Err(Errno::Badf),
        }
    }

    /// The directory that a descriptor is open on.
    pub(crate) fn dir_of(&self, fd: u32) -> Result<Node, Errno> {
        let (_, node) = self.node_of(fd)?;
        match self.kind(node)? {
            Kind::Directory => Ok(node),
            _ => Err(Errno::Notdir),
        }
    }

    /// Ignores the advice.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] for anything but a file, [`Errno::Inval`] if the range overflows.
    pub fn fd_advise(&self, fd: u32, offset: u64, len: u64) -> Result<(), Errno> {
        self.file_of(fd)?;
        match offset.checked_add(len) {
            Some(end) if end <= MAX_LEN => Ok(()),
            _ => Err(Errno::Inval),
        }
    }

    /// Preallocation is not supported.
    ///
    /// # Errors
    ///
    /// [`Errno::Notsup`] for a file, [`Errno::Inval`] for a device, [`Errno::Badf`] for others.
    pub fn fd_allocate(&self, fd: u32) -> Result<(), Errno> {
        match self.file_of(fd)? {
            (_, On::Device(_)) => Err(Errno::Inval),
            _ => Err(Errno::Notsup),
        }
    }

    /// Closes a descriptor. Returns the number of a foreign object.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when it is not open.
    pub fn fd_close(&mut self, fd: u32) -> Result<Option<u64>, Errno> {
        let open = self.descriptors.remove(fd)?;
        Ok(self.closed(open.target))
    }

    /// `fd_sync` and `fd_datasync`. Nothing to do, because no disk is involved.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when it is not open on a file.
    pub fn fd_sync(&self, fd: u32) -> Result<(), Errno> {
        self.file_of(fd).map(drop)
    }

    /// The kind, flags and rights of a descriptor.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when it is not open.
    pub fn fd_fdstat_get(&self, fd: u32) -> Result<FdStat, Errno> {
        let (open, node) = self.node_of(fd)?;
        let kind = self.kind(node)?;
        let without = |right, has| if has { 0 } else { right };
        let rights = match kind {
            Kind::Directory if open.preopen.is_some() => {
                return Ok(FdStat {
                    kind,
                    flags: FdFlags::default(),
                    rights: rights::PREOPEN,
                    inheriting: rights::PREOPEN_INHERITING,
                });
            }
            Kind::Directory => {
                let reading = without(rights::FD_READ | rights::FD_READDIR, open.read);
                rights::ALL & !(rights::NOT_DIRECTORY | rights::FD_WRITE | reading)
            }
            Kind::CharacterDevice => {
                let (read, write) = (rights::FD_READ, rights::FD_WRITE);
                rights::DEVICE
                    | (read & !without(read, open.read))
                    | (write & !without(write, open.write))
            }
            Kind::File | Kind::Symlink => {
                let reading = without(rights::FD_READ | rights::FD_READDIR, open.read);
                rights::ALL & !(reading | without(rights::FD_WRITE, open.write))
            }
        };
        Ok(FdStat {
            kind,
            flags: open.flags,
            rights,
            inheriting: rights,
        })
    }

    /// Sets the flags `APPEND` and `NONBLOCK`.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for other flags, [`Errno::Badf`] when it is not open on a file.
    pub fn fd_fdstat_set_flags(&mut self, fd: u32, flags: FdFlags) -> Result<(), Errno> {
        if let (_, On::Device(_)) = self.file_of(fd)? {
            return Ok(());
        }
        if flags.has(FdFlags::SYNCHRONOUS) {
            return Err(Errno::Inval);
        }
        self.descriptors.get_mut(fd)?.flags = flags;
        Ok(())
    }

    /// The attributes of the file that a descriptor is open on.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when it is not open.
    pub fn fd_filestat_get(&self, fd: u32) -> Result<Stat, Errno> {
        self.stat(self.node_of(fd)?.1)
    }

    /// Truncates a file, or extends it with a hole.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] over the limit, [`Errno::Inval`] if it is not open for writing.
    pub fn fd_filestat_set_size(
        &mut self,
        fd: u32,
        size: u64,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        match self.file_of(fd)? {
            (_, On::Packed(_)) => Err(Errno::Perm),
            (open, On::Own(number)) if open.write && size <= MAX_LEN => {
                self.set_size(number, size, world)
            }
            _ => Err(Errno::Inval),
        }
    }

    pub(crate) fn set_size(
        &mut self,
        number: u64,
        size: u64,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let before = self.inode(number)?.size();
        self.may_grow(size.saturating_sub(before))?;
        let Body::File(content) = &mut self.inode_mut(number)?.body else {
            return Err(Errno::Inval);
        };
        content.set_len(size)?;
        let now = self.stamp(world);
        self.inode_mut(number)?.touch(now);
        self.resized(before, size);
        Ok(())
    }

    /// Sets the timestamps of a descriptor's file.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when it is not open, [`Errno::Perm`] in a read-only tree.
    pub fn fd_filestat_set_times(
        &mut self,
        fd: u32,
        times: SetTimes,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        self.set_times(self.node_of(fd)?.1, times, world)
    }

    pub(crate) fn set_times(
        &mut self,
        node: Node,
        times: SetTimes,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let is_sealed = match &self.inode(node.number).map(|inode| &inode.body) {
            Ok(Body::Dir(dir)) => dir.sealed,
            Ok(Body::Device(_) | Body::Portal(_)) => true,
            _ => false,
        };
        if !node.is_own() || is_sealed {
            return Err(Errno::Perm);
        }
        if times == SetTimes::default() {
            return Ok(());
        }
        let now = self.stamp(world);
        let inode = self.inode_mut(node.number)?;
        let set = |to: &mut u64, time| match time {
            SetTime::Keep => {}
            SetTime::Now => *to = now,
            SetTime::To(time) => *to = time,
        };
        set(&mut inode.atime, times.atime);
        set(&mut inode.mtime, times.mtime);
        inode.ctime = now;
        Ok(())
    }

    /// Reads at the descriptor's offset, and advances it.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] if it is not open for reading, [`Errno::Io`] if the spool cannot be read.
    pub fn fd_read(
        &mut self,
        fd: u32,
        into: &mut [u8],
        world: &mut dyn World,
    ) -> Result<usize, Errno> {
        let (open, on) = self.file_of(fd)?;
        let offset = open.offset;
        let read = self.read_from(open, &on, into, offset, world)?;
        if read > 0 && !matches!(on, On::Device(_)) {
            self.descriptors.get_mut(fd)?.offset += read as u64;
        }
        Ok(read)
    }

    /// Reads from an offset.
    ///
    /// # Errors
    ///
    /// As [`fd_read`](Self::fd_read), and [`Errno::Inval`] for an offset out of range.
    pub fn fd_pread(
        &self,
        fd: u32,
        into: &mut [u8],
        offset: u64,
        world: &mut dyn World,
    ) -> Result<usize, Errno> {
        if offset > MAX_LEN {
            return Err(Errno::Inval);
        }
        let (open, on) = self.file_of(fd)?;
        self.read_from(open, &on, into, offset, world)
    }

    fn read_from(
        &self,
        open: &Open,
        on: &On,
        into: &mut [u8],
        offset: u64,
        world: &mut dyn World,
    ) -> Result<usize, Errno> {
        if !open.read {
            return Err(Errno::Badf);
        }
        match on {
            On::Own(number) => match &self.inode(*number)?.body {
                Body::File(content) => content.read_at(offset, into),
                _ => Err(Errno::Badf),
            },
            On::Packed(node) => self.tree(*node)?.read_at(node.number, offset, into),
            On::Device(Device::Null) => Ok(0),
            On::Device(Device::Zero) => {
                into.fill(0);
                Ok(into.len())
            }
            On::Device(Device::Random) => world.random(into).then_some(into.len()).ok_or(Errno::Io),
        }
    }

    /// Writes at the descriptor's offset, and advances it. Writes fewer bytes than given only if
    /// the pool, in memory and on disk, is full.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] over the limit, [`Errno::Badf`] if it is not open for writing,
    /// [`Errno::Io`] if the spool cannot be written.
    pub fn fd_write(
        &mut self,
        fd: u32,
        bytes: &[u8],
        world: &mut dyn World,
    ) -> Result<usize, Errno> {
        let (open, on) = self.file_of(fd)?;
        let (offset, appends) = (open.offset, open.flags.has(FdFlags::APPEND));
        let Some((number, at)) = self.write_place(open, &on, offset)? else {
            return Ok(bytes.len());
        };
        let written = self.write_to(number, bytes, at, world)?;
        if written > 0 || appends {
            self.descriptors.get_mut(fd)?.offset = at + written as u64;
        }
        Ok(written)
    }

    /// Writes at an offset. With `APPEND`, writes at the end, as Linux does.
    ///
    /// # Errors
    ///
    /// As [`fd_write`](Self::fd_write), and [`Errno::Inval`] for an offset out of range.
    pub fn fd_pwrite(
        &mut self,
        fd: u32,
        bytes: &[u8],
        offset: u64,
        world: &mut dyn World,
    ) -> Result<usize, Errno> {
        if offset > MAX_LEN {
            return Err(Errno::Inval);
        }
        let (open, on) = self.file_of(fd)?;
        let Some((number, at)) = self.write_place(open, &on, offset)? else {
            return Ok(bytes.len());
        };
        self.write_to(number, bytes, at, world)
    }

    /// The file and offset to write to; `None` for a device, which discards writes.
    fn write_place(&self, open: &Open, on: &On, offset: u64) -> Result<Option<(u64, u64)>, Errno> {
        if !open.write {
            return Err(Errno::Badf);
        }
        match on {
            On::Own(number) if open.flags.has(FdFlags::APPEND) => {
                Ok(Some((*number, self.inode(*number)?.size())))
            }
            On::Own(number) => Ok(Some((*number, offset))),
            On::Device(_) => Ok(None),
            On::Packed(_) => Err(Errno::Badf),
        }
    }

    fn write_to(
        &mut self,
        number: u64,
        bytes: &[u8],
        at: u64,
        world: &mut dyn World,
    ) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let before = self.inode(number)?.size();
        let end = at.checked_add(bytes.len() as u64).ok_or(Errno::Fbig)?;
        self.may_grow(end.saturating_sub(before))?;
        let pool = self.pool.clone();
        let Body::File(content) = &mut self.inode_mut(number)?.body else {
            return Err(Errno::Badf);
        };
        let written = content.write_at(&pool, at, bytes)?;
        let after = content.len();
        let now = self.stamp(world);
        self.inode_mut(number)?.touch(now);
        self.resized(before, after);
        Ok(written)
    }

    /// Moves a descriptor to another number. A descriptor that had the number is closed; returns
    /// its number if it was foreign.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when one of the two is not open.
    pub fn fd_renumber(&mut self, from: u32, to: u32) -> Result<Option<u64>, Errno> {
        self.descriptors.get(from)?;
        self.descriptors.get(to)?;
        if from == to {
            return Ok(None);
        }
        let replaced = self.descriptors.remove(to)?;
        let open = self.descriptors.remove(from)?;
        self.descriptors.put(to, open);
        Ok(self.closed(replaced.target))
    }

    /// Moves a descriptor's offset, and returns the new one.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] before the start, [`Errno::Badf`] when it is not open on a file.
    pub fn fd_seek(&mut self, fd: u32, delta: i64, whence: Whence) -> Result<u64, Errno> {
        let (open, on) = self.file_of(fd)?;
        let base = match (&on, whence) {
            (On::Device(_), _) => return Ok(0),
            (_, Whence::Set) => 0,
            (_, Whence::Cur) => open.offset,
            (On::Own(number), Whence::End) => self.inode(*number)?.size(),
            (On::Packed(node), Whence::End) => self.stat(*node)?.size,
        };
        let to = base.checked_add_signed(delta).filter(|to| *to <= MAX_LEN);
        let to = to.ok_or(Errno::Inval)?;
        if to != open.offset {
            self.descriptors.get_mut(fd)?.offset = to;
        }
        Ok(to)
    }

    /// The offset of a descriptor.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] when it is not open on a file.
    pub fn fd_tell(&self, fd: u32) -> Result<u64, Errno> {
        let (open, _) = self.file_of(fd)?;
        Ok(open.offset)
    }
}
