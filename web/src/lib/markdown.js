// Markdown as a tree of plain objects: the subset that models write. No HTML ever passes: what is
// not recognised stays text. Cost: linear in the text, but for a bounded search of closing marks.

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const MAX_DEPTH = 6;
const REACH = 2000; // characters between an opening mark and its closing one

const indent = (line) => line.length - line.trimStart().length;

function cells(line) {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => parseInline(cell.trim().replaceAll('\\|', '|')));
}

function takeFence(lines, at) {
  const [, pad, mark, language] = FENCE.exec(lines[at]);
  const body = [];
  let next = at + 1;
  while (next < lines.length && !(lines[next].trim().startsWith(mark) && /^\s*[`~]+\s*$/.test(lines[next]))) {
    const line = lines[next++];
    body.push(line.slice(Math.min(indent(line), pad.length)));
  }
  return { node: { type: 'code', language, text: body.join('\n'), open: next >= lines.length }, next: next + 1 };
}

function takeList(lines, at, depth) {
  const [, pad, marker] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(marker);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const match = ITEM.exec(lines[next]);
    if (!match || match[1].length !== pad.length || /\d/.test(match[2]) !== ordered || RULE.test(lines[next])) break;
    const inside = match[1].length + match[2].length + 1;
    const body = [match[3]];
    next += 1;
    while (next < lines.length) {
      const line = lines[next];
      const blank = line.trim() === '';
      const follows = lines[next + 1] !== undefined && lines[next + 1].trim() !== '' && indent(lines[next + 1]) > pad.length;
      if (blank ? !follows : indent(line) <= pad.length && (ITEM.test(line) || body.at(-1) === '' || startsBlock(lines, next))) break;
      body.push(blank ? '' : line.slice(Math.min(indent(line), inside)));
      next += 1;
    }
    items.push(parseBlocks(body, depth + 1));
    // A blank line between items does not end the list.
    if (lines[next]?.trim() === '' && ITEM.exec(lines[next + 1] ?? '')?.[1].length === pad.length) next += 1;
  }
  return { node: { type: 'list', ordered, start: ordered ? parseInt(marker, 10) : 1, items }, next };
}

function startsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line);
}

function parseBlocks(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    let taken = null;
    if (line.trim() === '') {
      at += 1;
      continue;
    }
    if (FENCE.test(line)) taken = takeFence(lines, at);
    else if (RULE.test(line)) taken = { node: { type: 'rule' }, next: at + 1 };
    else if (HEADING.test(line)) {
      const [, marks, text] = HEADING.exec(line);
      taken = { node: { type: 'heading', level: marks.length, children: parseInline(text) }, next: at + 1 };
    } else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
      let next = at;
      const body = [];
      while (next < lines.length && /^ {0,3}>/.test(lines[next])) body.push(lines[next++].replace(/^ {0,3}> ?/, ''));
      taken = { node: { type: 'quote', children: parseBlocks(body, depth + 1) }, next };
    } else if (ITEM.test(line) && depth < MAX_DEPTH) taken = takeList(lines, at, depth);
    else if (line.includes('|') && TABLE_RULE.test(lines[at + 1] ?? '') && lines[at + 1].includes('-')) {
      let next = at + 2;
      const rows = [];
      while (next < lines.length && lines[next].includes('|')) rows.push(cells(lines[next++]));
      taken = { node: { type: 'table', head: cells(line), rows }, next };
    }
    if (!taken) {
      let next = at + 1;
      while (next < lines.length && lines[next].trim() !== '' && !startsBlock(lines, next) && !ITEM.test(lines[next])) next += 1;
      taken = { node: { type: 'paragraph', children: parseInline(lines.slice(at, next).join('\n')) }, next };
    }
    blocks.push(taken.node);
    at = taken.next;
  }
  return blocks;
}

// Only what leads out of this page, and never a script.
export const safeUrl = (url) => (/^(https?:\/\/|mailto:)[^\s]+$/i.test(url) ? url : null);

const MARKS = [
  ['**', 'strong'],
  ['__', 'strong'],
  ['~~', 'strike'],
  ['*', 'emphasis'],
  ['_', 'emphasis'],
];

function takeMark(text, at) {
  for (const [mark, type] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const from = at + mark.length;
    if (!text[from] || /\s/.test(text[from])) continue;
    if (mark[0] === '_' && /\w/.test(text[at - 1] ?? '')) continue; // snake_case
    let end = text.indexOf(mark, from + 1);
    while (end >= 0 && end - at < REACH) {
      const closes = !/\s/.test(text[end - 1]) && !(mark[0] === '_' && /\w/.test(text[end + mark.length] ?? ''));
      const single = mark.length > 1 || (text[end + 1] !== mark && text[end - 1] !== mark);
      if (closes && single) return { node: { type, children: parseInline(text.slice(from, end)) }, next: end + mark.length };
      end = text.indexOf(mark, end + 1);
    }
  }
  return null;
}

function takeInline(text, at) {
  const rest = text.slice(at, at + REACH);
  if (text[at] === '`') {
    const mark = /^`+/.exec(rest)[0];
    const end = rest.indexOf(mark, mark.length);
    if (end > 0) return { node: { type: 'codespan', text: rest.slice(mark.length, end).trim() }, next: at + end + mark.length };
    return null;
  }
  if (text[at] === '\\' && /[\\`*_{}[\]()#+\-.!|~>]/.test(text[at + 1] ?? '')) return { node: text[at + 1], next: at + 2 };
  if (text[at] === '[') {
    const match = /^\[([^[\]]+)\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)?)\)/.exec(rest);
    if (match && safeUrl(match[2])) {
      return { node: { type: 'link', url: match[2], children: parseInline(match[1]) }, next: at + match[0].length };
    }
    return null;
  }
  if (text[at] === 'h' && !/\w/.test(text[at - 1] ?? '')) {
    const match = /^https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]]/.exec(rest);
    if (match) return { node: { type: 'link', url: match[0], children: [match[0]] }, next: at + match[0].length };
    return null;
  }
  if (text[at] === '\n') return { node: { type: 'break' }, next: at + 1 };
  return '*_~'.includes(text[at]) ? takeMark(text, at) : null;
}

export function parseInline(text) {
  const nodes = [];
  let plain = '';
  let at = 0;
  while (at < text.length) {
    const taken = '`\\[h\n*_~'.includes(text[at]) ? takeInline(text, at) : null;
    if (!taken) {
      plain += text[at++];
      continue;
    }
    if (typeof taken.node === 'string') plain += taken.node;
    else {
      if (plain) nodes.push(plain);
      plain = '';
      nodes.push(taken.node);
    }
    at = taken.next;
  }
  if (plain) nodes.push(plain);
  return nodes;
}

export const parseMarkdown = (text) => parseBlocks(text.replaceAll('\r\n', '\n').split('\n'), 0);
