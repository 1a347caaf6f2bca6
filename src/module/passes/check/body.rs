//! One function: its loops, its writes to the counter, and what takes as long as it is told to.

use wasmparser::{FunctionBody, Operator as O};

use super::CheckError;

/// The most bytes that one instruction may copy or fill.
const MAX_PIECE: i32 = 4 << 20;

/// What the counting goes by.
#[derive(Clone, Copy)]
pub(super) struct Named {
    /// The global that is the fuel left.
    pub fuel: u32,
    /// The imported function that gives more.
    pub refuel: u32,
}

/// What the calls of a function need to be judged.
#[derive(Default)]
pub(super) struct Body {
    /// It begins with a look at the fuel.
    pub looks: bool,
    /// The functions that it calls, once for each call.
    pub callees: Vec<u32>,
    pub indirect_calls: u32,
    /// Functions that it holds references to.
    pub references: Vec<u32>,
    pub size: u64,
}

/// Whether a function does nothing but adding what the host gives.
pub(super) fn asks_for_fuel(body: &FunctionBody<'_>, named: Named) -> Result<bool, CheckError> {
    let mut all = Vec::with_capacity(6);
    for operator in body.get_operators_reader()?.into_iter().take(6) {
        all.push(operator?);
    }
    let shape = matches!(all[..], [
        O::GlobalGet { global_index: read },
        O::Call { function_index },
        O::I64Add,
        O::GlobalSet { global_index: written },
        O::End,
    ] if read == named.fuel && written == named.fuel && function_index == named.refuel);
    Ok(shape && body.get_locals_reader()?.get_count() == 0)
}

/// Of each frame, what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// A block, or the function.
    Block,
    /// A loop that looks by itself; whether memory has been copied or filled in it.
    Loud { bulk: bool },
    /// The loop around a quiet one.
    Around,
    /// A loop that counts in this local.
    Quiet(u32),
}

impl Body {
    /// Checks a function; its calls are judged together with all others.
    pub(super) fn check(
        body: &FunctionBody<'_>,
        named: Named,
        slow: u32,
        function: u32,
    ) -> Result<Self, CheckError> {
        let operators: Vec<O<'_>> =
            body.get_operators_reader()?.into_iter().collect::<Result<_, _>>()?;
        let mut walk = Walk {
            shapes: Shapes { named, slow },
            operators: &operators,
            allowed: vec![false; operators.len()],
            counters: Vec::new(),
            frames: vec![Frame::Block],
            found: Self {
                size: operators.len() as u64,
                ..Self::default()
            },
        };
        walk.all()
            .and_then(|()| walk.nothing_else())
            .map_err(|why| CheckError::Function { function, why })?;
        Ok(walk.found)
    }
}

/// The shapes in which a module may count.
#[derive(Clone, Copy)]
struct Shapes {
    named: Named,
    slow: u32,
}

impl Shapes {
    /// Takes from the counter, looks, and asks for more where there is none: how long it is.
    fn loud(self, operators: &[O<'_>]) -> Option<usize> {
        let fuel = self.named.fuel;
        matches!(operators, [
            O::GlobalGet { global_index: a },
            O::I64Const { value: cost },
            O::I64Sub,
            O::GlobalSet { global_index: b },
            O::GlobalGet { global_index: c },
            O::I64Const { value: 0 },
            O::I64LtS,
            O::If { blockty: wasmparser::BlockType::Empty },
            O::Call { function_index },
            O::End,
            ..
        ] if [*a, *b, *c] == [fuel; 3] && *cost > 0 && *function_index == self.slow)
        .then_some(10)
    }

    /// Behind the header of the loop around a quiet one: looks at the local, asks for more, and
    /// begins the quiet loop, which leaves when there is none, and takes from the local. Returns the
    /// local and the header of the quiet loop.
    fn quiet(self, operators: &[O<'_>]) -> Option<(u32, usize)> {
        let fuel = self.named.fuel;
        match operators {
            [
                O::LocalGet { local_index: local },
                O::I64Const { value: 0 },
                O::I64LtS,
                O::If {
                    blockty: wasmparser::BlockType::Empty,
                },
                O::LocalGet { local_index: given },
                O::GlobalSet { global_index: put },
                O::Call { function_index },
                O::GlobalGet { global_index: got },
                O::LocalSet { local_index: taken },
                O::End,
                O::Loop { .. },
                O::LocalGet { local_index: seen },
                O::I64Const { value: 0 },
                O::I64LtS,
                O::BrIf { relative_depth: 1 },
                O::LocalGet { local_index: from },
                O::I64Const { value: cost },
                O::I64Sub,
                O::LocalSet { local_index: to },
                ..,
            ] if [*given, *taken, *seen, *from, *to] == [*local; 5]
                && [*put, *got] == [fuel; 2]
                && *cost > 0
                && *function_index == self.slow =>
            {
                Some((*local, 10))
            }
            _ => None,
        }
    }

    /// Sets a local to the counter.
    fn take_over(self, operators: &[O<'_>], counter: u32) -> bool {
        matches!(operators, [
            O::GlobalGet { global_index },
            O::LocalSet { local_index },
        ] if *global_index == self.named.fuel && *local_index == counter)
    }

    /// Sets the counter to a local.
    fn hand_back(self, operators: &[O<'_>], counter: u32) -> bool {
        matches!(operators, [
            O::LocalGet { local_index },
            O::GlobalSet { global_index },
        ] if *global_index == self.named.fuel && *local_index == counter)
    }

    /// Takes from the counter what cannot be negative: a 32-bit number without sign.
    fn take_bytes(self, operators: &[O<'_>]) -> bool {
        matches!(operators, [
            O::GlobalGet { global_index: a },
            O::LocalGet { .. },
            O::I64ExtendI32U,
            O::I64Sub,
            O::GlobalSet { global_index: b },
        ] if [*a, *b] == [self.named.fuel; 2])
    }
}

/// The smaller of a local and a bound that is small enough.
fn bounded(operators: &[O<'_>]) -> bool {
    matches!(operators, [
        O::LocalGet { local_index: a },
        O::I32Const { value: most },
        O::LocalGet { local_index: b },
        O::I32Const { value: again },
        O::I32LtU,
        O::Select,
    ] if a == b && most == again && (0..=MAX_PIECE).contains(most))
}

struct Walk<'a> {
    shapes: Shapes,
    operators: &'a [O<'a>],
    /// Operators that belong to a shape.
    allowed: Vec<bool>,
    /// Locals that count.
    counters: Vec<u32>,
    frames: Vec<Frame>,
    found: Body,
}

type Verdict = Result<(), &'static str>;

impl Walk<'_> {
    fn all(&mut self) -> Verdict {
        if let Some(length) = self.shapes.loud(self.operators) {
            self.allow(0, length);
            self.found.looks = true;
        }
        for at in 0..self.operators.len() {
            self.operator(at)?;
        }
        Ok(())
    }

    /// Nothing writes to the counter, to a local that counts, or asks for fuel, but in a shape.
    fn nothing_else(&self) -> Verdict {
        for (operator, _) in self.operators.iter().zip(&self.allowed).filter(|(_, ok)| !**ok) {
            match operator {
                O::GlobalSet { global_index } if *global_index == self.shapes.named.fuel => {
                    return Err("writes to the counter");
                }
                O::LocalSet { local_index } | O::LocalTee { local_index }
                    if self.counters.contains(local_index) =>
                {
                    return Err("writes to a local that counts");
                }
                O::Call { function_index }
                    if [self.shapes.slow, self.shapes.named.refuel].contains(function_index) =>
                {
                    return Err("asks for fuel out of turn");
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[expect(
        clippy::collapsible_match,
        reason = "an operator that needs nothing is not another's"
    )]
    fn operator(&mut self, at: usize) -> Verdict {
        let operators = self.operators;
        match &operators[at] {
            O::Loop { .. } => return self.begin_loop(at),
            O::Block { .. } | O::If { .. } => self.frames.push(Frame::Block),
            O::TryTable { .. } => {
                self.is_loud()?;
                self.frames.push(Frame::Block);
            }
            O::End => return self.end(at),
            O::Br { relative_depth } | O::BrIf { relative_depth } => {
                if !self.allowed[at] {
                    self.may_leave(at, &[*relative_depth])?;
                }
            }
            O::BrTable { targets } => {
                let mut all = vec![targets.default()];
                for target in targets.targets() {
                    all.push(target.map_err(|_| "has a broken table of branches")?);
                }
                self.may_leave(at, &all)?;
            }
            O::Return => self.may_leave(at, &[self.frames.len() as u32 - 1])?,
            O::Call { function_index } => {
                if !self.allowed[at] {
                    self.is_loud()?;
                    self.found.callees.push(*function_index);
                }
            }
            O::CallIndirect { .. } => {
                self.is_loud()?;
                self.found.indirect_calls += 1;
            }
            O::MemoryGrow { .. } | O::Throw { .. } | O::ThrowRef => self.is_loud()?,
            O::MemoryCopy { .. } | O::MemoryFill { .. } => return self.bulk(at),
            O::RefFunc { function_index } => self.found.references.push(*function_index),
            O::GlobalSet { global_index } if *global_index == self.shapes.named.fuel => {
                if at >= 4 && self.shapes.take_bytes(&operators[at - 4..=at]) {
                    self.allow(at, 1);
                }
            }
            O::MemoryInit { .. }
            | O::DataDrop { .. }
            | O::TableInit { .. }
            | O::TableCopy { .. }
            | O::TableFill { .. }
            | O::TableGrow { .. }
            | O::TableSet { .. }
            | O::ElemDrop { .. } => return Err("has an instruction that is not provided for"),
            _ => {}
        }
        Ok(())
    }

    fn begin_loop(&mut self, at: usize) -> Verdict {
        let behind = &self.operators[at + 1..];
        // The quiet loop was looked at together with the one around it.
        if self.frames.last() == Some(&Frame::Around) {
            let Some((counter, _)) = self.shapes.quiet(&self.operators[at - 10..]) else {
                return Err("has a loop where none may be");
            };
            self.frames.push(Frame::Quiet(counter));
            return Ok(());
        }
        if self.frames.iter().any(|frame| matches!(frame, Frame::Quiet(_) | Frame::Around)) {
            return Err("has a loop in a quiet one");
        }
        if let Some(length) = self.shapes.loud(behind) {
            self.allow(at + 1, length);
            self.frames.push(Frame::Loud { bulk: false });
            return Ok(());
        }
        let Some((counter, length)) = self.shapes.quiet(behind) else {
            return Err("has a loop that does not look at the fuel");
        };
        if at < 2 || !self.shapes.take_over(&self.operators[at - 2..at], counter) {
            return Err("has a quiet loop that begins to count anywhere");
        }
        self.counters.push(counter);
        self.allow(at - 2, 2);
        // All up to the loop, and what follows its header.
        self.allow(at + 1, length + 9);
        self.frames.push(Frame::Around);
        Ok(())
    }

    /// Behind a quiet loop the one around it ends, and the count is handed back.
    fn end(&mut self, at: usize) -> Verdict {
        let closed = self.frames.pop();
        if let Some(Frame::Quiet(counter)) = closed {
            let behind = &self.operators[at + 1..];
            if !matches!(behind, [O::End, ..])
                || behind.len() < 3
                || !self.shapes.hand_back(&behind[1..3], counter)
            {
                return Err("does not hand back the count of a quiet loop");
            }
            self.allow(at + 2, 2);
        }
        Ok(())
    }

    /// A branch out of a quiet loop hands back its count first.
    fn may_leave(&mut self, at: usize, depths: &[u32]) -> Verdict {
        let quiet = self.frames.iter().enumerate().find_map(|(index, frame)| match frame {
            Frame::Quiet(counter) => Some((index, *counter)),
            _ => None,
        });
        let Some((index, counter)) = quiet else {
            return Ok(());
        };
        let inside = self.frames.len() - 1 - index;
        if depths.iter().any(|&depth| depth as usize == inside + 1) {
            return Err("goes round a quiet loop by itself");
        }
        if depths.iter().all(|&depth| depth as usize <= inside) {
            return Ok(());
        }
        if at < 2 || !self.shapes.hand_back(&self.operators[at - 2..at], counter) {
            return Err("leaves a quiet loop with its count");
        }
        self.allow(at - 2, 2);
        Ok(())
    }

    /// Calls and what is like them may stand where the loop around them looks.
    fn is_loud(&self) -> Verdict {
        if self.frames.iter().any(|frame| matches!(frame, Frame::Quiet(_))) {
            return Err("calls from a quiet loop");
        }
        Ok(())
    }

    /// Memory is copied and filled once for every look, and no more of it than a piece.
    fn bulk(&mut self, at: usize) -> Verdict {
        let innermost = self.frames.iter_mut().rev().find(|frame| **frame != Frame::Block);
        match innermost {
            Some(Frame::Loud { bulk }) if !*bulk => *bulk = true,
            _ => return Err("copies or fills memory without a look at the fuel"),
        }
        if at < 6 || !bounded(&self.operators[at - 6..at]) {
            return Err("copies or fills as much memory as it is told to");
        }
        Ok(())
    }

    fn allow(&mut self, from: usize, length: usize) {
        self.allowed[from..from + length].fill(true);
    }
}
