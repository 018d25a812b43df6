import { memo, type ReactNode, useMemo } from "react";
import { CodeBlock } from "../../parts/values/json-view.tsx";
import styles from "./markdown.module.css";
import { type MarkdownBlock, parseMarkdown, type Span } from "./parse-markdown.ts";

/** Renders Markdown, such as an answer. Headings are moved down two levels, below those of the page. */
export const MarkdownView = memo(function MarkdownView({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div className={styles.markdown}>{renderBlocks(blocks)}</div>;
});

function renderBlocks(blocks: readonly MarkdownBlock[]): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
  return blocks.map((block, index) => <Block key={index} block={block} />);
}

function Block({ block }: { block: MarkdownBlock }) {
  switch (block.type) {
    case "paragraph":
      return <p>{renderSpans(block.spans)}</p>;
    case "heading": {
      const Heading = `h${Math.min(6, block.level + 2)}` as "h3";
      return <Heading>{renderSpans(block.spans)}</Heading>;
    }
    case "code":
      return (
        <CodeBlock text={block.text} label={block.language === "" ? "Code" : `Code, ${block.language}`} />
      );
    case "quote":
      return <blockquote>{renderBlocks(block.blocks)}</blockquote>;
    case "rule":
      return <hr />;
    case "list":
      return <List block={block} />;
    case "table":
      return <Table block={block} />;
  }
}

function List({ block }: { block: Extract<MarkdownBlock, { type: "list" }> }) {
  const items = block.items.map(({ checked, blocks }, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
    <li key={index} data-checked={checked ?? undefined}>
      {checked !== null && (
        <input type="checkbox" checked={checked} readOnly disabled aria-label={checked ? "Done" : "Open"} />
      )}
      {blocks.length === 1 && blocks[0]!.type === "paragraph"
        ? renderSpans(blocks[0]!.spans)
        : renderBlocks(blocks)}
    </li>
  ));
  if (block.start === null) return <ul>{items}</ul>;
  return <ol start={block.start}>{items}</ol>;
}

function Table({ block }: { block: Extract<MarkdownBlock, { type: "table" }> }) {
  const { align, head, rows } = block;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table must scroll with the keyboard too
    <section className={styles.tableScroll} tabIndex={0} aria-label="Table">
      <table>
        <thead>
          <tr>
            {head.map((cell, column) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns never move
              <th key={column} scope="col" style={{ textAlign: align[column] }}>
                {renderSpans(cell)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows never move
            <tr key={row}>
              {cells.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns never move
                <td key={column} style={{ textAlign: align[column] }}>
                  {renderSpans(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function renderSpans(spans: readonly Span[]): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
  return spans.map((span, index) => <SpanView key={index} span={span} />);
}

function SpanView({ span }: { span: Span }): ReactNode {
  switch (span.type) {
    case "text":
      return span.text;
    case "code":
      return <code>{span.text}</code>;
    case "strong":
      return <strong>{renderSpans(span.spans)}</strong>;
    case "emphasis":
      return <em>{renderSpans(span.spans)}</em>;
    case "strike":
      return <del>{renderSpans(span.spans)}</del>;
    case "break":
      return <br />;
    case "link":
      return (
        <a href={span.href} target="_blank" rel="noopener noreferrer">
          {renderSpans(span.spans)}
        </a>
      );
  }
}
