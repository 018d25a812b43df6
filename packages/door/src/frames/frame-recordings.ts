/**
 * Records the frames of bindings that an operator chose, for a limited time. The frames are kept in the memory of this
 * gateway and never on disk: frames repeat what the records of the calls already contain, so storing them would double
 * each record (docs/decisions/0047-console.md). The runner has already removed the secrets from the frames.
 */
import {
  BackplaneError,
  FRAME_LIMITS,
  type FrameRecording,
  OBSERVABLE_PROTOCOLS,
  type RecordedFrame,
} from "@backplane/contract";
import {
  type BoundPackage,
  buildAudit,
  type InvocationRow,
  isWholeOrg,
  type Kernel,
  type KernelDeps,
  requireOperator,
  requireWholeOrg,
  type Timer,
} from "@backplane/ports";

interface Recording {
  ends_at: number;
  frames: RecordedFrame[];
  chars: number;
  stop: () => void;
  end_timer: Timer;
  /** Removes the frames some time after the recording has ended. */
  expiry: Timer | null;
}

type RecordingDeps = Pick<KernelDeps, "clock" | "ids" | "runner" | "store">;

export function createFrameRecordings(deps: RecordingDeps): Kernel["frames"] & { close: () => void } {
  const { clock, runner, store } = deps;
  const recordings = new Map<string, Recording>();

  function begin(binding_id: string, seconds: number): Recording {
    drop(binding_id);
    if (recordings.size >= FRAME_LIMITS.bindings) drop(recordings.keys().next().value!);
    const recording: Recording = {
      ends_at: clock.now() + seconds * 1_000,
      frames: [],
      chars: 0,
      stop: () => {},
      end_timer: clock.after(seconds * 1_000, () => finish(binding_id, recording)),
      expiry: null,
    };
    recordings.set(binding_id, recording);
    recording.stop =
      runner.observe?.([binding_id], ({ at, from, kind, text, call_id }) =>
        addFrame(recording, { at, from, kind, text, invocation_id: call_id ?? null }),
      ) ?? recording.stop;
    return recording;
  }

  function finish(binding_id: string, recording: Recording): void {
    recording.stop();
    recording.end_timer.stop();
    recording.ends_at = Math.min(recording.ends_at, clock.now());
    recording.expiry ??= clock.after(FRAME_LIMITS.kept_ms, () => {
      if (recordings.get(binding_id) === recording) recordings.delete(binding_id);
    });
  }

  function drop(binding_id: string): void {
    const recording = recordings.get(binding_id);
    if (recording === undefined) return;
    finish(binding_id, recording);
    recording.expiry?.stop();
    recordings.delete(binding_id);
  }

  function describeRecording(binding_id: string, observable: boolean): Omit<FrameRecording, "items"> {
    const recording = recordings.get(binding_id);
    const is_active = recording !== undefined && recording.ends_at > clock.now();
    return { observable, recording_until: is_active ? new Date(recording.ends_at).toISOString() : null };
  }

  function isObservable(bound: BoundPackage): boolean {
    const { protocol } = bound.package.manifest.runtime;
    return runner.observe !== undefined && OBSERVABLE_PROTOCOLS.includes(protocol as never);
  }

  return {
    async record(caller, binding_id, seconds) {
      requireOperator(caller, "record frames");
      const bound = await store.bindings.get(caller.scope, binding_id);
      if (bound === null) throw new BackplaneError("binding.not_found");
      // Recording replaces the processes of the binding, which serve the calls of every project.
      if (isOrgWide(bound))
        requireWholeOrg(caller, "record the frames of a binding of the whole organization");
      if (!isObservable(bound)) {
        const message = `The frames of the binding ${binding_id} cannot be recorded: the runner does not observe ${bound.package.manifest.runtime.protocol} processes.`;
        throw new BackplaneError("request.invalid", message, { details: { binding_id } });
      }
      const action = seconds === 0 ? "frames.stop" : "frames.record";
      await store.audit.append(buildAudit(deps, caller, action, binding_id, { seconds }, caller.scope));
      if (seconds > 0) begin(binding_id, seconds);
      else {
        const recording = recordings.get(binding_id);
        if (recording !== undefined) finish(binding_id, recording);
      }
      return describeRecording(binding_id, true);
    },
    async list(caller, invocation_id) {
      requireOperator(caller, "read recorded frames");
      const row = await store.invocations.get(caller.scope, invocation_id);
      if (row === null) throw new BackplaneError("invocation.not_found");
      const bound = await store.bindings.get(caller.scope, row.binding_id);
      // The processes of an org-wide binding serve all projects, so a frame without a call may belong to any project.
      const call_frames_only = bound === null || (isOrgWide(bound) && !isWholeOrg(caller));
      const frames = recordings.get(row.binding_id)?.frames ?? [];
      const items = frames.filter((frame) => belongsToCall(frame, row, call_frames_only));
      return { ...describeRecording(row.binding_id, bound !== null && isObservable(bound)), items };
    },
    close() {
      for (const id of recordings.keys()) drop(id);
    },
  };
}

function isOrgWide({ binding }: BoundPackage): boolean {
  return binding.scope.project_id === null;
}

/** A frame without a call, such as the handshake of a new process, is shown for every call in progress at that time. */
function belongsToCall(
  { invocation_id, at }: RecordedFrame,
  { id, created_at, ended_at }: InvocationRow,
  call_frames_only: boolean,
): boolean {
  if (invocation_id !== null) return invocation_id === id;
  if (call_frames_only) return false;
  return at >= created_at && (ended_at === null || at <= ended_at);
}

/** Drops the oldest frames while a limit is exceeded. */
function addFrame(recording: Recording, frame: RecordedFrame): void {
  recording.frames.push(frame);
  recording.chars += frame.text.length;
  while (recording.frames.length > FRAME_LIMITS.frames || recording.chars > FRAME_LIMITS.chars)
    recording.chars -= recording.frames.shift()!.text.length;
}
