import { Button } from "@mantine/core";
import { Notice } from "./notice.tsx";

/** Shown while unsaved changes compete with a change by someone else. */
export function ConflictNotice({ onDiscard }: { onDiscard: () => void }) {
  return (
    <Notice
      tone="warn"
      title="Someone else changed this while you were editing"
      actions={
        <Button size="xs" variant="default" onClick={onDiscard}>
          Discard my changes
        </Button>
      }
    >
      <p>Saving replaces their change with yours.</p>
    </Notice>
  );
}
