// Shows the tree that lib/markdown.js makes. Model text only ever becomes text nodes.
import { memo } from '../lib/memo.js';
import { parseMarkdown } from '../lib/markdown.js';
import { useState } from 'preact/hooks';

const INLINE = { strong: 'strong', emphasis: 'em', strike: 's' };

function Inline({ nodes }) {
  return nodes.map((node, i) => {
    if (typeof node === 'string') return node;
    if (node.type === 'codespan') return <code key={i}>{node.text}</code>;
    if (node.type === 'break') return <br key={i} />;
    if (node.type === 'link') {
      return (
        <a key={i} href={node.url} target="_blank" rel="noopener noreferrer nofollow">
          <Inline nodes={node.children} />
        </a>
      );
    }
    const Tag = INLINE[node.type];
    return (
      <Tag key={i}>
        <Inline nodes={node.children} />
      </Tag>
    );
  });
}

export function Code({ language, text, label = 'Code' }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      setCopied(false); // not allowed here
    }
  };
  return (
    <div class="codeBlock">
      <div class="codeHead">
        <span>{language || 'text'}</span>
        <button type="button" class="plain" onClick={copy}>
          {copied ? 'Copied' : 'Copy'}
        </button>
      </div>
      <pre tabIndex={0} role="region" aria-label={label}>
        <code>{text}</code>
      </pre>
    </div>
  );
}

function Block({ node }) {
  switch (node.type) {
    case 'code':
      return <Code language={node.language} text={node.text} />;
    case 'rule':
      return <hr />;
    case 'heading': {
      const Tag = `h${Math.min(node.level + 3, 6)}`; // below the page's own headings
      return (
        <Tag>
          <Inline nodes={node.children} />
        </Tag>
      );
    }
    case 'quote':
      return (
        <blockquote>
          <Blocks nodes={node.children} />
        </blockquote>
      );
    case 'list': {
      const Tag = node.ordered ? 'ol' : 'ul';
      return (
        <Tag start={node.ordered && node.start !== 1 ? node.start : undefined}>
          {node.items.map((blocks, i) => (
            <li key={i}>{blocks.length === 1 && blocks[0].type === 'paragraph' ? <Inline nodes={blocks[0].children} /> : <Blocks nodes={blocks} tight />}</li>
          ))}
        </Tag>
      );
    }
    case 'table':
      return (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>
                {node.head.map((cell, i) => (
                  <th key={i} scope="col">
                    <Inline nodes={cell} />
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {node.rows.map((row, i) => (
                <tr key={i}>
                  {row.map((cell, j) => (
                    <td key={j}>
                      <Inline nodes={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    default:
      return (
        <p>
          <Inline nodes={node.children} />
        </p>
      );
  }
}

// In a list item the first paragraph is the item's text.
function Blocks({ nodes, tight }) {
  return nodes.map((node, i) => (tight && node.type === 'paragraph' && i === 0 ? <Inline key={i} nodes={node.children} /> : <Block key={i} node={node} />));
}

export const Markdown = memo(function Markdown({ text }) {
  return (
    <div class="markdown">
      <Blocks nodes={parseMarkdown(text)} />
    </div>
  );
});
