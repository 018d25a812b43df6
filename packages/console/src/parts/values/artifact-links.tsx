import { type Invocation, isArtifact } from "@backplane/contract";
import { Button } from "@mantine/core";
import { Icon } from "../layout/icon.tsx";
import styles from "../styles/layout.module.css";

/** Downloads of the files that the result of a call refers to. */
export function ArtifactLinks({ call: { id, tool_result } }: { call: Invocation }) {
  const files = (tool_result?.content ?? []).filter(isArtifact).flatMap(({ sha256, path }) => {
    if (typeof sha256 !== "string") return [];
    return [{ sha256, name: typeof path === "string" ? path.split("/").at(-1)! : sha256 }];
  });
  if (files.length === 0) return null;
  return (
    <div className={styles.row}>
      {files.map(({ sha256, name }) => (
        <Button
          key={sha256}
          component="a"
          href={`/v1/invocations/${encodeURIComponent(id)}/artifacts/${sha256}`}
          download={name}
          size="xs"
          variant="default"
          leftSection={<Icon name="download" size={14} />}
        >
          {`Download ${name}`}
        </Button>
      ))}
    </div>
  );
}
