//! What running rules costs, and where it ends.
//!
//! # Design
//!
//! The crate of the language neither counts what it does nor can it be stopped, and it copies each value that an expression selects.
//! So an expression is changed before it is run: each step of a loop first calls a function with the variables that it reads,
//! which charges their sizes, what the step selects from `self` and `oldSelf`, and something for each part of the expression; when nothing is
//! left the function fails, and so does every loop. Loops that gather a list would copy it in each step: they put their items aside
//! instead. What is outside of loops is charged before it is run. The unit is about a
//! byte that is copied: it is not the unit of the real server, whose limits count steps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_cel::cel::common::ast::operators::{ADD, CONDITIONAL};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{ExecutionError, Value as CelValue};

use crate::steps::steps;

/// The function that charges, by a name that no expression has.
pub(super) const TICK: &str = "@tick";
/// The functions that begin a list, put an item aside for it, and give the list.
pub(super) const BEGIN: &str = "@begin";
pub(super) const PUT: &str = "@put";
pub(super) const GATHERED: &str = "@gathered";
/// What one rule may cost each time that it is run.
const OF_RULE: u64 = 128 << 20;
/// What all rules of an object may cost.
const OF_OBJECT: u64 = 1 << 30;
/// What a value costs beside its bytes, and what a part of an expression costs.
const EACH: u64 = 32;

/// What the rules of an object have left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(OF_OBJECT)
    }
}

/// An expression that charges for what it does.
#[derive(Debug)]
pub(super) struct Metered {
    pub(super) expression: IdedExpr,
    /// What is outside of loops, and then each loop.
    parts: Vec<Part>,
}

/// A part of an expression which is run as a whole.
#[derive(Debug, Default)]
struct Part {
    size: u64,
    /// What it selects, each from a variable that does not change.
    selects: Vec<Vec<String>>,
}

impl Metered {
    pub(super) fn new(expression: &IdedExpr) -> Self {
        let mut changed = Change {
            parts: vec![Part::default()],
            loops: Vec::new(),
        };
        let mut expression = expression.clone();
        changed.expression(&mut expression, 0);
        Self {
            expression,
            parts: changed.parts,
        }
    }
}

/// The variables of a loop, and how often its step reads them.
struct Loop {
    part: usize,
    variables: [String; 2],
    reads: Vec<(String, usize)>,
}

impl Loop {
    fn read(&mut self, name: &str, times: usize) {
        match self.reads.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known += times,
            None => self.reads.push((name.to_owned(), times)),
        }
    }
}

/// The change of an expression. Recurses: deep ones are refused before.
struct Change {
    parts: Vec<Part>,
    /// Those around, the innermost last.
    loops: Vec<Loop>,
}

impl Change {
    fn expression(&mut self, expression: &mut IdedExpr, part: usize) {
        self.parts[part].size += EACH;
        match &mut expression.expr {
            // Structures are refused before.
            Expr::Unspecified | Expr::Literal(_) | Expr::Struct(_) => {}
            Expr::Ident(name) => self.variable(vec![name.clone()], part),
            Expr::Select(select) => match path_of(select) {
                // A chain of selections from a variable is charged as one.
                Some(path) => self.variable(path, part),
                None => self.expression(&mut select.operand, part),
            },
            Expr::Call(call) => {
                for inner in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
                    self.expression(inner, part);
                }
            }
            Expr::List(list) => {
                for element in &mut list.elements {
                    self.expression(element, part);
                }
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.expression(&mut entry.key, part);
                        self.expression(&mut entry.value, part);
                    }
                }
            }
            Expr::Comprehension(all) => self.comprehension(all, part),
        }
    }

    /// Reads a variable, or what is at a path in it.
    fn variable(&mut self, path: Vec<String>, part: usize) {
        let is_of_loop = |of: &Loop| of.variables.contains(&path[0]);
        if self.loops.iter().any(is_of_loop) {
            if let Some(innermost) = self.loops.iter_mut().rev().find(|of| of.part == part) {
                innermost.read(&path[0], path.len());
            }
        } else if matches!(path[0].as_str(), "self" | "oldSelf") {
            self.parts[part].selects.push(path);
        }
    }

    fn comprehension(&mut self, all: &mut ComprehensionExpr, part: usize) {
        self.expression(&mut all.iter_range, part);
        self.expression(&mut all.accu_init, part);
        let of_step = self.parts.len();
        self.parts.push(Part::default());
        let gathers = gathers(all);
        let variables = [all.iter_var.clone(), all.accu_var.clone()];
        self.loops.push(Loop {
            part: of_step,
            // Each step copies its item.
            reads: vec![(all.iter_var.clone(), 1)],
            variables,
        });
        self.expression(&mut all.loop_cond, of_step);
        self.expression(&mut all.loop_step, of_step);
        self.expression(&mut all.result, of_step);
        let Some(Loop { mut reads, .. }) = self.loops.pop() else {
            return;
        };
        if gathers {
            put_aside(all, of_step);
            reads.retain(|(name, _)| *name != all.accu_var);
        }
        let mut args = vec![int(of_step)];
        for (name, times) in reads {
            args.push(int(times));
            args.push(of(Expr::Ident(name)));
        }
        let step = std::mem::take(&mut all.loop_step);
        all.loop_step = call(CONDITIONAL, vec![call(TICK, args), step, int(0)]);
    }
}

/// A variable and the names that are selected from it.
fn path_of(select: &SelectExpr) -> Option<Vec<String>> {
    let mut path = match &select.operand.expr {
        Expr::Ident(name) => vec![name.clone()],
        Expr::Select(above) => path_of(above)?,
        _ => return None,
    };
    path.push(select.field.clone());
    Some(path)
}

fn of(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn int(value: usize) -> IdedExpr {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    of(Expr::Literal(LiteralValue::Int(value.into())))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    of(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

fn is_variable(expression: &IdedExpr, name: &str) -> bool {
    matches!(&expression.expr, Expr::Ident(found) if found == name)
}

/// The item in `list + [item]`.
fn appended<'e>(expression: &'e mut IdedExpr, list: &str) -> Option<&'e mut IdedExpr> {
    let Expr::Call(add) = &mut expression.expr else {
        return None;
    };
    match (add.func_name.as_str(), add.args.as_mut_slice()) {
        (ADD, [first, second]) if is_variable(first, list) => match &mut second.expr {
            Expr::List(items) if items.optional_indices.is_empty() => match items.elements.as_mut_slice() {
                [item] => Some(item),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Where a step puts an item into the list that it gathers, maybe on a condition.
fn put_into<'e>(step: &'e mut IdedExpr, list: &str) -> Option<&'e mut IdedExpr> {
    let is_conditional = matches!(&step.expr, Expr::Call(call) if call.func_name == CONDITIONAL);
    let put = if is_conditional {
        let Expr::Call(choice) = &mut step.expr else {
            return None;
        };
        match choice.args.as_mut_slice() {
            [_, yes, no] if is_variable(no, list) => yes,
            _ => return None,
        }
    } else {
        step
    };
    appended(put, list).is_some().then_some(put)
}

/// Whether a loop does nothing but gather a list, as `map` and `filter` do.
fn gathers(all: &mut ComprehensionExpr) -> bool {
    let begins_empty = matches!(&all.accu_init.expr, Expr::List(list) if list.elements.is_empty());
    begins_empty && is_variable(&all.result, &all.accu_var) && put_into(&mut all.loop_step, &all.accu_var).is_some()
}

/// Lets a loop put its items aside.
fn put_aside(all: &mut ComprehensionExpr, part: usize) {
    let list = all.accu_var.clone();
    if let Some(put) = put_into(&mut all.loop_step, &list)
        && let Some(item) = appended(put, &list).map(std::mem::take)
    {
        *put = call(PUT, vec![int(part), item]);
        all.accu_init = call(BEGIN, vec![int(part)]);
        all.result = call(GATHERED, vec![int(part)]);
    }
}

/// Why a rule was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// It costs too much itself.
    Rule,
    /// All rules together do.
    Object,
}

/// What is left, and what each part of the expression that is run costs.
#[derive(Debug)]
struct State {
    left: u64,
    is_spent: bool,
    parts: Vec<u64>,
    /// The list that each part gathers.
    gathered: Vec<Vec<CelValue>>,
}

/// Counts what rules cost.
#[derive(Debug, Clone)]
pub(super) struct Meter(Arc<Mutex<State>>);

impl Meter {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            left: 0,
            is_spent: false,
            parts: Vec::new(),
            gathered: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an expression with these variables, as far as the budget reaches.
    ///
    /// # Errors
    /// Where it ended. Nothing is left then.
    pub(super) fn run<T>(
        &self,
        metered: &Metered,
        (own, old): (&CelValue, Option<&CelValue>),
        budget: &mut Budget,
        run: impl FnOnce() -> T,
    ) -> Result<T, Spent> {
        let value = |name: &str| if name == "self" { Some(own) } else { old };
        let cost = |part: &Part| {
            let selects = part.selects.iter();
            part.size
                + selects
                    .map(|path| value(&path[0]).map_or(0, |value| cost_of(value, &path[1..])))
                    .sum::<u64>()
        };
        let parts: Vec<u64> = metered.parts.iter().map(cost).collect();
        let first = parts.first().copied().unwrap_or_default();
        let whole = size(own) + old.map_or(0, size) + first;
        let limit = budget.0.min(OF_RULE);
        *self.state() = State {
            left: limit,
            is_spent: false,
            gathered: vec![Vec::new(); parts.len()],
            parts,
        };
        let result = self.charge(whole).then(run);
        let state = self.state();
        budget.0 -= limit - state.left;
        match result {
            Some(result) if !state.is_spent => Ok(result),
            _ => {
                budget.0 = 0;
                Err(if limit == OF_RULE { Spent::Rule } else { Spent::Object })
            }
        }
    }

    /// Takes from what is left; whether there was enough.
    fn charge(&self, cost: u64) -> bool {
        steps(usize::try_from(cost / EACH).unwrap_or(usize::MAX));
        let mut state = self.state();
        if state.is_spent || cost > state.left {
            (state.left, state.is_spent) = (0, true);
        } else {
            state.left -= cost;
        }
        !state.is_spent
    }

    /// Charges for a step of a loop: the arguments are the number of its part, and how often it reads each variable.
    ///
    /// # Errors
    /// When there is nothing left.
    pub(super) fn tick(&self, arguments: &[CelValue]) -> Result<CelValue, ExecutionError> {
        let mut cost = 0;
        if let Some((CelValue::Int(part), variables)) = arguments.split_first() {
            let part = usize::try_from(*part).unwrap_or_default();
            cost = self.state().parts.get(part).copied().unwrap_or_default();
            for pair in variables.chunks_exact(2) {
                if let [CelValue::Int(times), value] = pair {
                    cost += u64::try_from(*times).unwrap_or_default() * size(value);
                }
            }
        }
        if self.charge(cost) {
            Ok(CelValue::Bool(true))
        } else {
            Err(ExecutionError::function_error(TICK, "nothing is left of the budget"))
        }
    }
}

impl Meter {
    /// Begins the list of a part, adds an item to it, or gives it.
    ///
    /// # Errors
    /// For other arguments, which no expression has.
    pub(super) fn gather(&self, what: &str, arguments: &[CelValue]) -> Result<CelValue, ExecutionError> {
        let mut state = self.state();
        let part = match arguments.first() {
            Some(CelValue::Int(part)) => usize::try_from(*part).unwrap_or_default(),
            _ => 0,
        };
        let list = state.gathered.get_mut(part).ok_or(ExecutionError::NoSuchOverload)?;
        match (what, arguments) {
            (GATHERED, _) => return Ok(CelValue::List(Arc::new(std::mem::take(list)))),
            (PUT, [_, item]) => list.push(item.clone()),
            _ => list.clear(),
        }
        Ok(CelValue::Bool(true))
    }
}

impl Budget {
    /// Whether no rule may be run any more.
    pub(super) const fn is_spent(self) -> bool {
        self.0 == 0
    }
}

/// What it costs to copy what is on the way to a path.
fn cost_of(value: &CelValue, path: &[String]) -> u64 {
    let Some((name, rest)) = path.split_first() else {
        return size(value);
    };
    let CelValue::Map(map) = value else { return EACH };
    let Some(below) = map.map.get(&Key::from(name.as_str())) else {
        return EACH;
    };
    if rest.is_empty() {
        return size(below);
    }
    size(below) + cost_of(below, rest)
}

/// About how many bytes a value takes.
fn size(value: &CelValue) -> u64 {
    EACH + match value {
        CelValue::List(items) => items.iter().map(size).sum(),
        CelValue::Map(map) => {
            let size_of_key = |key: &Key| match key {
                Key::String(text) => EACH + text.len() as u64,
                _ => EACH,
            };
            map.map.iter().map(|(key, value)| size_of_key(key) + size(value)).sum()
        }
        CelValue::String(text) => text.len() as u64,
        CelValue::Bytes(bytes) => bytes.len() as u64,
        _ => 0,
    }
}
