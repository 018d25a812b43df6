/** Marks a compaction, a reset, a handoff or an interruption in the conversation. */
import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import type { MarkerItem } from "./build-transcript.ts";
import type { CompactionState } from "./compaction-state.ts";
import { MarkdownView } from "./markdown-view.tsx";
import { useCardOpen } from "./open-cards.ts";
import styles from "./sessions.module.css";

export function Marker({ item, state }: { item: MarkerItem; state: CompactionState | undefined }) {
  if (item.kind === "compaction") return <CompactionMarker item={item} state={state} />;
  return (
    <p className={styles.marker}>
      <span>
        {item.kind === "interrupt" && <Icon name="stop" size={14} />}
        {item.text}
      </span>
    </p>
  );
}

function CompactionMarker({ item, state }: { item: MarkerItem; state: CompactionState | undefined }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [opened, setOpened] = useCardOpen(`marker ${item.entry}`);
  const undo = useMutation({
    mutationFn: (chain_id: string) => client.compactions.undo(chain_id),
    onSuccess: () =>
      toast.show({
        tone: "good",
        title: "The compaction was undone. The model sees the messages before it again.",
      }),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["sessions"] }),
  });
  const undone = state?.in_effect === false;
  const { loss } = item;
  return (
    <section className={styles.compaction} data-undone={undone ? "" : undefined} aria-label="Compaction">
      <div className={styles.compactionHead}>
        <details open={opened} onToggle={({ currentTarget }) => setOpened(currentTarget.open)}>
          <summary>
            <Icon name="compact" size={16} />
            <span className={styles.compactionText}>
              {undone
                ? "This compaction was undone. The model sees the messages before it, but not the messages after it that have a dashed line"
                : item.text}
            </span>
            {loss !== null && !undone && (
              <span className={styles.note}>
                {loss.dropped === 0
                  ? "nothing was dropped"
                  : `${loss.dropped} dropped, ${loss.condensed} condensed, ${loss.kept} kept`}
              </span>
            )}
          </summary>
          {opened && (
            <div className={styles.compactionBody}>
              {item.summary !== "" && <MarkdownView text={item.summary} />}
              {loss !== null && <p className={styles.note}>{describeLoss(loss)}</p>}
            </div>
          )}
        </details>
        {state?.undoable === true && (
          <Button
            size="compact-sm"
            variant="default"
            loading={undo.isPending}
            onClick={() => undo.mutate(state.chain_id)}
          >
            Undo
          </Button>
        )}
      </div>
    </section>
  );
}

/** Describes how many entries the compaction kept, condensed and dropped. All of them stay on the tape. */
function describeLoss({
  kept,
  condensed,
  dropped,
  dropped_tokens,
  dropped_entries,
}: NonNullable<MarkerItem["loss"]>): string {
  const ranges = dropped_entries.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  const entries = ranges.length === 0 ? "" : `, entries ${ranges.join(", ")}`;
  return `Of the earlier entries, ${kept} were kept, ${condensed} condensed and ${dropped} dropped (about ${dropped_tokens} tokens${entries}). Of the dropped entries, the model sees only what the summary mentions. They stay visible here.`;
}
