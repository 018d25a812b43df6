/**
 * The protocol frames of a call. The gateway keeps none unless an operator records them: the records of all calls would
 * be twice as large, and the content of the frames is already on this page.
 */
import type { FrameRecording, Invocation, RecordedFrame } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { frameQueries } from "../../api/frames.ts";
import { useServices } from "../../api/services.ts";
import { CopyButton } from "../../parts/actions/copy-button.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { durationText } from "../../parts/text/time-text.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Time } from "../../parts/values/time.tsx";
import styles from "./invocations.module.css";

const RECORD_SECONDS = 600;

export function CallFrames({ call }: { call: Invocation }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const query = useQuery(frameQueries.list(client, call.id));
  const record = useMutation({
    mutationFn: (seconds: number) => client.invocations.recordFrames(call.binding_id, seconds),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["frames"] }),
  });
  const recording = query.data;
  // Shows nothing to a person who may not read frames, or for a protocol whose frames cannot be recorded.
  if (recording === undefined || (!recording.observable && recording.items.length === 0)) return null;
  const active = recording.recording_until !== null;
  return (
    <Card
      title="Frames"
      flush={recording.items.length > 0}
      actions={
        <Button
          size="compact-sm"
          variant="default"
          loading={record.isPending}
          onClick={() => record.mutate(active ? 0 : RECORD_SECONDS)}
        >
          {active ? "Stop recording" : "Record frames for 10 minutes"}
        </Button>
      }
    >
      {recording.items.length > 0 ? <FrameList frames={recording.items} /> : <NoFrames {...recording} />}
    </Card>
  );
}

function NoFrames({ recording_until }: FrameRecording) {
  if (recording_until !== null)
    return (
      <p className={styles.note}>
        Frames of this binding are recorded; the recording ends <Time at={recording_until} />. If this call
        was made before the recording began, run it again to see its frames.
      </p>
    );
  return (
    <>
      <p className={styles.note}>
        No frames of this call were recorded. A recording replaces the processes of the binding and keeps the
        frames of its calls in memory, without secrets, for up to an hour. While you write a plugin, this
        command shows its frames:
      </p>
      <CliCommand command="backplane plugin dev FOLDER" />
    </>
  );
}

function FrameList({ frames }: { frames: readonly RecordedFrame[] }) {
  const start = Date.parse(frames[0]!.at);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a long list must scroll with the keyboard too
    <ol className={styles.events} aria-label="Frames of the call" tabIndex={0}>
      {frames.map(({ at, from, kind, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: frames are only added at the end
        <li key={index} className={styles.frame} data-kind={kind}>
          <span>+{durationText(Date.parse(at) - start)}</span>
          <span>{senderText(from, kind)}</span>
          <code className={styles.eventData}>{text}</code>
          <CopyButton text={text} label={`Copy frame ${index + 1}`} />
        </li>
      ))}
    </ol>
  );
}

function senderText(from: RecordedFrame["from"], kind: RecordedFrame["kind"]): string {
  if (kind === "stderr") return "stderr";
  if (kind === "stray_output") return "not a frame";
  return from === "host" ? "to the plugin" : "from the plugin";
}
