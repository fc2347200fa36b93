// Two tools that run in this page, so that a tool loop can be seen without writing a program.

const OPERATORS = {
  '+': [1, (a, b) => a + b],
  '-': [1, (a, b) => a - b],
  '*': [2, (a, b) => a * b],
  '/': [2, (a, b) => a / b],
  '%': [2, (a, b) => a % b],
  '^': [4, (a, b) => a ** b],
};
const FUNCTIONS = { sqrt: Math.sqrt, abs: Math.abs, sin: Math.sin, cos: Math.cos, tan: Math.tan, ln: Math.log,
  log: Math.log10, exp: Math.exp, round: Math.round, floor: Math.floor, ceil: Math.ceil };
const CONSTANTS = { pi: Math.PI, e: Math.E };
const MAX_LENGTH = 500;
const MAX_DEPTH = 50;

function tokens(text) {
  const found = [];
  let rest = text.replaceAll('×', '*').replaceAll('÷', '/').replaceAll('**', '^').trim();
  while (rest) {
    const match = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+|[a-z]+|[-+*/%^()])\s*/i.exec(rest);
    if (!match) throw new Error(`"${rest[0]}" has no meaning here`);
    found.push(match[1].toLowerCase());
    rest = rest.slice(match[0].length);
  }
  return found;
}

// Precedence climbing; no code is ever made of the text.
export function calculate(expression) {
  const text = String(expression);
  if (text.length > MAX_LENGTH) throw new Error(`the expression has ${text.length} characters, ${MAX_LENGTH} are allowed`);
  const list = tokens(text);
  let at = 0;
  const expect = (token) => {
    if (list[at++] !== token) throw new Error(`"${token}" is missing`);
  };
  function atom(depth) {
    if (depth > MAX_DEPTH) throw new Error('too many levels');
    const token = list[at++];
    if (token === undefined) throw new Error('the expression ends too early');
    if (token === '-') return -climb(3, depth + 1);
    if (token === '+') return climb(3, depth + 1);
    if (token === '(') {
      const value = climb(1, depth + 1);
      expect(')');
      return value;
    }
    if (Object.hasOwn(CONSTANTS, token)) return CONSTANTS[token];
    if (Object.hasOwn(FUNCTIONS, token)) {
      expect('(');
      const value = climb(1, depth + 1);
      expect(')');
      return FUNCTIONS[token](value);
    }
    if (!/^[\d.]/.test(token)) throw new Error(`"${token}" is not known`);
    return Number(token);
  }
  function climb(least, depth) {
    let left = atom(depth);
    while (Object.hasOwn(OPERATORS, list[at] ?? '') && OPERATORS[list[at]][0] >= least) {
      const operator = list[at++];
      const [level, apply] = OPERATORS[operator];
      left = apply(left, climb(operator === '^' ? level : level + 1, depth + 1));
    }
    return left;
  }
  const value = climb(1, 0);
  if (at < list.length) throw new Error(`"${list[at]}" comes unexpectedly`);
  return value;
}

export function clock(timeZone, now = new Date()) {
  const zone = timeZone || Intl.DateTimeFormat().resolvedOptions().timeZone;
  const local = new Intl.DateTimeFormat('en-GB', { timeZone: zone, dateStyle: 'full', timeStyle: 'long' });
  return { utc: now.toISOString(), local: local.format(now), time_zone: zone };
}

const describe = (name, description, properties, required) => ({
  type: 'function',
  function: { name, description, parameters: { type: 'object', properties, required, additionalProperties: false } },
});

export const DEMO_TOOLS = {
  clock: {
    definition: describe('clock', 'Tells the current date and time.',
      { time_zone: { type: 'string', description: 'An IANA time zone such as Europe/Berlin; empty: the local one' } }, []),
    run: ({ time_zone }) => clock(time_zone),
  },
  calculator: {
    definition: describe('calculator', 'Computes the value of an arithmetic expression.',
      { expression: { type: 'string', description: 'For example: (3 + 4) * 12.5' } }, ['expression']),
    run: ({ expression }) => ({ result: calculate(expression) }),
  },
};

// The result as the text of a tool message, errors included: the model should see them.
export function runDemoTool(name, argumentsText) {
  try {
    return JSON.stringify(DEMO_TOOLS[name].run(JSON.parse(argumentsText || '{}')));
  } catch (error) {
    return JSON.stringify({ error: error.message });
  }
}

// The tools that a user wrote as JSON: an array of functions, with or without the outer
// {"type": "function"}. Throws with a sentence that says what is wrong.
export function parseCustomTools(text) {
  if (!text.trim()) return [];
  let list;
  try {
    list = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
  return (Array.isArray(list) ? list : [list]).map((item, index) => {
    const fn = item?.function ?? item;
    if (typeof fn?.name !== 'string' || !fn.name) throw new Error(`Tool ${index + 1} has no "name".`);
    return { type: 'function', function: fn };
  });
}
