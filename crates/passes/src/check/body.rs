//! Checks one function: its loops, its writes to the counter, and instructions whose time depends
//! on an operand.

use wasmparser::{FunctionBody, Operator as O};

use super::CheckError;

/// Maximum number of bytes that one instruction may copy or fill.
const MAX_PIECE: i32 = 4 << 20;

/// Maximum number of operators that a quiet loop may run before it traps.
const MAX_QUIET: u64 = 1 << 34;
/// Number of operators of such a loop's header, of subtracting its iterations, of its trap, and of
/// a fuel check.
const HEADER: usize = 7;
const TAKE: usize = 7;
const OVERRUN_LENGTH: usize = 5;
const LOOK: usize = 10;
/// Maximum cost of one iteration.
const MAX_COST: i64 = 1 << 10;
/// Maximum cost of one fuel check: the counter cannot overflow.
const MAX_LOOK: i64 = 1 << 32;
/// Maximum number of operators of an extension that one unit of fuel pays for.
const PER_UNIT: u64 = 16;
/// Fuel subtracted when such a loop traps.
const OVERRUN: i64 = 1 << 62;

/// Indices that counting uses.
#[derive(Clone, Copy)]
pub(super) struct Named {
    /// The global with the remaining fuel.
    pub fuel: u32,
    /// The imported function that adds fuel.
    pub refuel: u32,
    /// In an extension, the number of imported functions: calls of these, and indirect calls, must
    /// follow a check, and every check pays for the code after it.
    pub leaving: Option<u32>,
}

/// Properties of a function for checking calls.
#[derive(Default)]
pub(super) struct Body {
    /// Whether it begins with a fuel check.
    pub looks: bool,
    /// Its direct callees, once per call.
    pub callees: Vec<u32>,
    pub indirect_calls: u32,
    /// Functions that it refers to.
    pub references: Vec<u32>,
    pub size: u64,
}

/// Whether a function only adds the fuel that the host gives.
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

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// A block, or the function.
    Block,
    /// The block after which the function traps with excessive cost.
    Overrun,
    /// A loop that checks its fuel.
    Loud {
        /// Whether memory has been copied or filled in it.
        bulk: bool,
        /// Local whose value was subtracted in this iteration.
        taken: Option<u32>,
    },
    /// A loop that counts its iterations in a local.
    Quiet(Quiet),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quiet {
    /// The local.
    turns: u32,
    /// Number of iterations after which it traps.
    most: u32,
    /// Start of its body.
    from: usize,
}

impl Body {
    /// Checks a function; its calls are checked later, with all others.
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
            turns: Vec::new(),
            frames: vec![Frame::Block],
            marked: Vec::new(),
            paid: Vec::new(),
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

/// The allowed instruction sequences for counting.
#[derive(Clone, Copy)]
struct Shapes {
    named: Named,
    slow: u32,
}

impl Shapes {
    /// Matches a fuel check: subtract, compare, and request more.
    /// Returns its cost.
    fn loud(self, operators: &[O<'_>]) -> Option<u64> {
        let fuel = self.named.fuel;
        match operators {
            [
                O::GlobalGet { global_index: a },
                O::I64Const { value: cost },
                O::I64Sub,
                O::GlobalSet { global_index: b },
                O::GlobalGet { global_index: c },
                O::I64Const { value: 0 },
                O::I64LtS,
                O::If {
                    blockty: wasmparser::BlockType::Empty,
                },
                O::Call { function_index },
                O::End,
                ..,
            ] if [*a, *b, *c] == [fuel; 3]
                && (1..=MAX_LOOK).contains(cost)
                && *function_index == self.slow =>
            {
                Some(cost.cast_unsigned())
            }
            _ => None,
        }
    }

    /// Matches the code after a quiet loop's header: counts an iteration, and exits after very
    /// many. Returns the counting local, the limit, and the label of the exit.
    fn quiet(operators: &[O<'_>]) -> Option<(u32, u32, u32)> {
        match operators {
            [
                O::LocalGet { local_index: from },
                O::I32Const { value: 1 },
                O::I32Add,
                O::LocalTee { local_index: to },
                O::I32Const { value: most },
                O::I32GtU,
                O::BrIf { relative_depth },
                ..,
            ] if from == to && *most != -1 => Some((*from, most.cast_unsigned(), *relative_depth)),
            _ => None,
        }
    }

    /// Matches the reset of the counting local.
    fn begin(operators: &[O<'_>], turns: u32) -> bool {
        matches!(operators, [
            O::I32Const { value: 0 },
            O::LocalSet { local_index },
        ] if *local_index == turns)
    }

    /// Matches the subtraction of a quiet loop's iterations.
    fn take_turns(self, operators: &[O<'_>], turns: u32) -> bool {
        matches!(operators, [
            O::GlobalGet { global_index: a },
            O::LocalGet { local_index },
            O::I64ExtendI32U,
            O::I64Const { value: cost },
            O::I64Mul,
            O::I64Sub,
            O::GlobalSet { global_index: b },
            ..
        ] if [*a, *b] == [self.named.fuel; 2] && *local_index == turns && (1..=MAX_COST).contains(cost))
    }

    /// Matches the trap with excessive cost.
    fn overrun(self, operators: &[O<'_>]) -> bool {
        matches!(operators, [
            O::GlobalGet { global_index: a },
            O::I64Const { value: OVERRUN },
            O::I64Sub,
            O::GlobalSet { global_index: b },
            O::Unreachable,
            ..
        ] if [*a, *b] == [self.named.fuel; 2])
    }

    /// Matches the subtraction of an unsigned 32-bit number, which cannot be negative.
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

/// Matches the minimum of a local and a small limit. Returns the local.
fn bounded(operators: &[O<'_>]) -> Option<u32> {
    match operators {
        [
            O::LocalGet { local_index: a },
            O::I32Const { value: most },
            O::LocalGet { local_index: b },
            O::I32Const { value: again },
            O::I32LtU,
            O::Select,
        ] if a == b && most == again && (0..=MAX_PIECE).contains(most) => Some(*a),
        _ => None,
    }
}

struct Walk<'a> {
    shapes: Shapes,
    operators: &'a [O<'a>],
    /// Operators that belong to an allowed sequence.
    allowed: Vec<bool>,
    /// Locals that count iterations.
    turns: Vec<u32>,
    frames: Vec<Frame>,
    /// Indices of the frames that are not blocks.
    marked: Vec<usize>,
    /// In an extension, the code that a check pays for: of the function outside of loops, and of
    /// the loops around the operator.
    paid: Vec<Paid>,
    found: Body,
}

/// Code that one check pays for.
struct Paid {
    cost: u64,
    /// Number of its operators.
    size: u64,
}

impl Paid {
    const fn verdict(&self) -> Verdict {
        if self.size > self.cost.saturating_mul(PER_UNIT) {
            return Err("takes too little fuel for its work");
        }
        Ok(())
    }
}

type Verdict = Result<(), &'static str>;

impl Walk<'_> {
    fn all(&mut self) -> Verdict {
        let cost = self.shapes.loud(self.operators);
        if cost.is_some() {
            self.allow(0, LOOK);
            self.found.looks = true;
        }
        let is_extension = self.shapes.named.leaving.is_some();
        if is_extension {
            let cost = cost.ok_or("does not begin with a look at the fuel")?;
            self.paid.push(Paid { cost, size: 0 });
        }
        for at in 0..self.operators.len() {
            if let Some(paid) = self.paid.last_mut() {
                paid.size += 1;
            }
            self.operator(at)?;
        }
        self.paid.pop().map_or(Ok(()), |paid| paid.verdict())
    }

    /// Checks that no other code writes to the counter or to a counting local, or requests fuel.
    fn nothing_else(&self) -> Verdict {
        for (operator, _) in self.operators.iter().zip(&self.allowed).filter(|(_, ok)| !**ok) {
            match operator {
                O::GlobalSet { global_index } if *global_index == self.shapes.named.fuel => {
                    return Err("writes to the counter");
                }
                O::LocalSet { local_index } | O::LocalTee { local_index }
                    if self.turns.contains(local_index) =>
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
            O::Block { .. } if self.is_whole(at) => self.push(Frame::Overrun),
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
                    let leaving = self.shapes.named.leaving;
                    if leaving.is_some_and(|imports| *function_index < imports) {
                        self.follows_check(at)?;
                    } else {
                        self.found.callees.push(*function_index);
                    }
                }
            }
            O::CallIndirect { .. } => {
                self.is_loud()?;
                if self.shapes.named.leaving.is_some() {
                    self.follows_check(at)?;
                } else {
                    self.found.indirect_calls += 1;
                }
            }
            O::MemoryGrow { .. } | O::Throw { .. } | O::ThrowRef => self.is_loud()?,
            O::MemoryCopy { .. } | O::MemoryFill { .. } => return self.bulk(at),
            O::RefFunc { function_index } => self.found.references.push(*function_index),
            O::GlobalSet { global_index } if *global_index == self.shapes.named.fuel => {
                if at >= 4 && self.shapes.take_bytes(&operators[at - 4..=at]) {
                    self.allow(at, 1);
                    if let (Some(Frame::Loud { taken, .. }), O::LocalGet { local_index }) =
                        (self.frames.last_mut(), &operators[at - 3])
                    {
                        *taken = Some(*local_index);
                    }
                }
            }
            O::LocalSet { local_index } | O::LocalTee { local_index } => {
                if let Some(Frame::Loud { taken, .. }) = self.innermost()
                    && *taken == Some(*local_index)
                {
                    *taken = None;
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

    /// Whether the block that begins here is the first of a function that ends with a trap. That it
    /// ends at the trap is checked there.
    fn is_whole(&self, at: usize) -> bool {
        let before = if self.found.looks { LOOK } else { 0 };
        let length = self.operators.len();
        let trap = length.checked_sub(OVERRUN_LENGTH + 1).map(|from| &self.operators[from..]);
        at == before && trap.is_some_and(|trap| self.shapes.overrun(trap))
    }

    fn begin_loop(&mut self, at: usize) -> Verdict {
        let behind = &self.operators[at + 1..];
        if self.quiet_around().is_some() {
            return Err("has a loop in a quiet one");
        }
        if let Some(cost) = self.shapes.loud(behind) {
            self.allow(at + 1, LOOK);
            self.push(Frame::Loud {
                bulk: false,
                taken: None,
            });
            if self.shapes.named.leaving.is_some() {
                self.paid.push(Paid { cost, size: 0 });
            }
            return Ok(());
        }
        // After a quiet loop, nothing looks.
        if self.shapes.named.leaving.is_some() {
            return Err("has a loop that does not look at the fuel");
        }
        let Some((turns, most, leaving)) = Shapes::quiet(behind) else {
            return Err("has a loop that does not look at the fuel");
        };
        if at < 2 || !Shapes::begin(&self.operators[at - 2..at], turns) {
            return Err("has a quiet loop that begins to count anywhere");
        }
        let target = (self.frames.len() as u32).checked_sub(leaving);
        if target.and_then(|index| self.frames.get(index as usize)) != Some(&Frame::Overrun) {
            return Err("has a quiet loop that does not trap");
        }
        self.turns.push(turns);
        self.allow(at - 2, 2);
        self.allow(at + 1, HEADER);
        self.push(Frame::Quiet(Quiet {
            turns,
            most,
            from: at + 1,
        }));
        Ok(())
    }

    fn end(&mut self, at: usize) -> Verdict {
        let behind = at + 1;
        let closed = self.frames.pop();
        if closed.is_some_and(|frame| frame != Frame::Block) {
            self.marked.pop();
        }
        match closed {
            Some(Frame::Loud { .. }) => {
                // The loop may have changed the local that the outer one subtracted.
                if let Some(Frame::Loud { taken, .. }) = self.innermost() {
                    *taken = None;
                }
                // Loops of the main module are not counted.
                self.paid.pop().map_or(Ok(()), |paid| paid.verdict())
            }
            Some(Frame::Quiet(quiet)) => self.end_quiet(behind, quiet),
            Some(Frame::Overrun) if self.shapes.overrun(&self.operators[behind..]) => {
                self.allow(behind, OVERRUN_LENGTH);
                Ok(())
            }
            Some(Frame::Overrun) => Err("goes on where it should trap"),
            _ => Ok(()),
        }
    }

    /// Checks that a quiet loop's iterations are subtracted after it, and that their limit is low
    /// enough.
    fn end_quiet(&mut self, behind: usize, quiet: Quiet) -> Verdict {
        if !self.shapes.take_turns(&self.operators[behind..], quiet.turns) {
            return Err("does not take the turns of a quiet loop");
        }
        self.allow(behind, TAKE);
        // The subtraction on an exit runs once, not in every iteration.
        let body = &self.allowed[quiet.from..behind];
        let size = (HEADER + body.iter().filter(|&&allowed| !allowed).count()) as u64;
        if u64::from(quiet.most) * size > MAX_QUIET {
            return Err("has a quiet loop that may go on for too long");
        }
        Ok(())
    }

    fn push(&mut self, frame: Frame) {
        self.marked.push(self.frames.len());
        self.frames.push(frame);
    }

    /// Returns the innermost frame that is not a block.
    fn innermost(&mut self) -> Option<&mut Frame> {
        self.frames.get_mut(*self.marked.last()?)
    }

    /// Returns the quiet loop around the operator. It contains no other loop.
    fn quiet_around(&self) -> Option<(usize, Quiet)> {
        let &index = self.marked.last()?;
        match self.frames.get(index)? {
            Frame::Quiet(quiet) => Some((index, *quiet)),
            _ => None,
        }
    }

    /// Checks that a branch out of a quiet loop subtracts its iterations first.
    fn may_leave(&mut self, at: usize, depths: &[u32]) -> Verdict {
        let Some((index, quiet)) = self.quiet_around() else {
            return Ok(());
        };
        let inside = self.frames.len() - 1 - index;
        if depths.iter().all(|&depth| depth as usize <= inside) {
            return Ok(());
        }
        // If the branch is not taken, the iterations would be subtracted again.
        if matches!(self.operators[at], O::BrIf { .. } | O::BrTable { .. }) {
            return Err("may leave a quiet loop, or not");
        }
        let Some(before) = at.checked_sub(TAKE) else {
            return Err("leaves a quiet loop with its turns");
        };
        if !self.shapes.take_turns(&self.operators[before..at], quiet.turns) {
            return Err("leaves a quiet loop with its turns");
        }
        self.allow(before, TAKE);
        Ok(())
    }

    /// Checks that a call, or a similar instruction, is in a loop that checks its fuel.
    fn is_loud(&self) -> Verdict {
        if self.quiet_around().is_some() {
            return Err("calls from a quiet loop");
        }
        Ok(())
    }

    /// Checks that a call that leaves an extension follows a fuel check.
    fn follows_check(&mut self, at: usize) -> Verdict {
        let Some(before) = at.checked_sub(LOOK) else {
            return Err("leaves an extension without a look at the fuel");
        };
        if self.shapes.loud(&self.operators[before..at]).is_none() {
            return Err("leaves an extension without a look at the fuel");
        }
        self.allow(before, LOOK);
        Ok(())
    }

    /// Checks that memory is copied or filled once per fuel check, and by at most one piece.
    fn bulk(&mut self, at: usize) -> Verdict {
        let is_extension = self.shapes.named.leaving.is_some();
        let operators = self.operators;
        let taken = match self.innermost() {
            Some(Frame::Loud { bulk, taken }) if !*bulk => {
                *bulk = true;
                *taken
            }
            _ => return Err("copies or fills memory without a look at the fuel"),
        };
        let length = at.checked_sub(6).and_then(|from| bounded(&operators[from..at]));
        let length = length.ok_or("copies or fills as much memory as it is told to")?;
        if is_extension && taken != Some(length) {
            return Err("copies or fills memory that it does not take fuel for");
        }
        Ok(())
    }

    fn allow(&mut self, from: usize, length: usize) {
        self.allowed[from..from + length].fill(true);
    }
}
