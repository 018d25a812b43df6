/**
 * A turn from its first step to its record. It never rejects: what breaks inside is the turn's own failure, and is
 * recorded as such.
 */
import {
  type BackplaneError,
  codeOf,
  type JsonObject,
  type Run,
  toBackplaneError,
} from "@backplane/contract";
import { catchUp, type ResumeDeps } from "./resume.ts";
import { type Finished, finishTurn, recordAnswer } from "./run-record.ts";
import { type StepDeps, type TurnEnd, takeSteps } from "./steps.ts";
import type { Turn } from "./turn.ts";

export type CarryDeps = StepDeps & ResumeDeps;

interface Done {
  end: TurnEnd | null;
  failure: BackplaneError | null;
}

/** Null: another gateway carries it on. */
export async function carryTurn(deps: CarryDeps, turn: Turn): Promise<Run | null> {
  let done = await untilDone(deps, turn, () => firstSteps(deps, turn));
  for (;;) {
    await turn.close();
    const finished: Finished =
      turn.stopped === "lost" ? { state: "lost" } : await finishTurn(deps, turn, done.end, done.failure);
    if (finished.state === "lost") {
      turn.stop("lost");
      return null;
    }
    if (finished.state === "ended") {
      const write = done.end?.write;
      if (write != null && turn.stopped === null && deps.memories().length > 0) {
        deps.port.tryPublish("memory.write", { entry: write as unknown as JsonObject }, turn.to);
      }
      return finished.run;
    }
    turn.joinedElsewhere(finished.joins);
    deps.histories.forget(turn.key);
    // A turn that failed or was stopped answers nobody any more: it ends at the next try.
    if (done.end === null || done.failure !== null || turn.stopped !== null) continue;
    turn.reopen();
    const answered = done.end;
    done = await untilDone(deps, turn, async () => answered);
  }
}

async function firstSteps(deps: CarryDeps, turn: Turn): Promise<TurnEnd> {
  const from = turn.run.resumed === undefined ? null : await catchUp(deps, turn);
  return await takeSteps(deps, turn, from);
}

async function untilDone(deps: CarryDeps, turn: Turn, first: () => Promise<TurnEnd>): Promise<Done> {
  let end: TurnEnd | null = null;
  try {
    end = await first();
    // Who spoke after the model was last asked is answered in the same turn.
    while (turn.steered && turn.stopped === null) {
      await recordAnswer(deps, turn, end);
      end = await takeSteps(deps, turn);
    }
    return { end, failure: null };
  } catch (error) {
    if (codeOf(error) === "run.taken_over") turn.stop("lost");
    else if (turn.stopped === null && codeOf(error) === undefined)
      deps.log.error({ err: error }, "a turn broke inside");
    return { end, failure: toBackplaneError(error) };
  }
}
