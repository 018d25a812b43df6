import { CopyButton } from "../actions/copy-button.tsx";
import styles from "../styles/parts.module.css";

/** A command of the CLI that does the same as the page, ready to copy. */
export function CliCommand({ command }: { command: string }) {
  return (
    <span className={styles.command}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long command must scroll with the keyboard too */}
      <code tabIndex={0}>{command}</code>
      <CopyButton text={command} label="Copy the command" />
    </span>
  );
}
