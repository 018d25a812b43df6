import { Group } from "@mantine/core";
import { CopyButton } from "../actions/copy-button.tsx";
import styles from "../styles/parts.module.css";

/** The first characters of a digest, which is copied in full. */
export function Digest({ value }: { value: string }) {
  return (
    <Group gap={4} wrap="nowrap" component="span" display="inline-flex">
      <span className={styles.digest} title={value}>
        {shortDigest(value)}
      </span>
      <CopyButton text={value} label="Copy the digest" />
    </Group>
  );
}

function shortDigest(value: string): string {
  const [algorithm, hex] = value.includes(":") ? value.split(":", 2) : [null, value];
  return `${algorithm === null ? "" : `${algorithm}:`}${hex!.slice(0, 12)}`;
}
