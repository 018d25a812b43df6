import { useMemo } from "react";
import { CopyButton } from "../actions/copy-button.tsx";
import styles from "../styles/parts.module.css";
import { jsonParts } from "../text/json-text.ts";

const CLASSES = {
  plain: undefined,
  key: styles.jsonKey,
  string: styles.jsonString,
  number: styles.jsonNumber,
  literal: styles.jsonLiteral,
} as const;

/** Shows the whole value: nothing is collapsed or shortened, so a reviewer sees what will be sent. */
export function JsonView({ value, label }: { value: unknown; label: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "undefined", [value]);
  return (
    <CodeBlock text={text} label={label}>
      {jsonParts(text).map(({ kind, text: part }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one text never move
        <span key={index} className={CLASSES[kind]}>
          {part}
        </span>
      ))}
    </CodeBlock>
  );
}

export function CodeBlock({
  text,
  label,
  children,
}: {
  text: string;
  label: string;
  children?: React.ReactNode;
}) {
  return (
    <section className={styles.codeBlock} aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long text must scroll with the keyboard too */}
      <pre className={styles.code} tabIndex={0}>
        {children ?? text}
      </pre>
      <span className={styles.codeCopy}>
        <CopyButton text={text} label={`Copy: ${label}`} />
      </span>
    </section>
  );
}
