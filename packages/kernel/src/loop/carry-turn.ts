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
import { finishTurn, recordAnswer } from "./run-record.ts";
import { type StepDeps, takeSteps, type TurnEnd } from "./steps.ts";
import type { Turn } from "./turn.ts";

export type CarryDeps = StepDeps & ResumeDeps;

export async function carryTurn(deps: CarryDeps, turn: Turn): Promise<Run> {
  let end: TurnEnd | null = null;
  let failure: BackplaneError | null = null;
  try {
    const from = turn.run.resumed === undefined ? null : await catchUp(deps, turn);
    end = await takeSteps(deps, turn, from);
    // Who spoke after the model was last asked is answered in the same turn.
    while (turn.steered && turn.stopped === null) {
      await recordAnswer(deps, turn, end);
      end = await takeSteps(deps, turn);
    }
  } catch (error) {
    if (turn.stopped === null && codeOf(error) === undefined)
      deps.log.error({ err: error }, "a turn broke inside");
    failure = toBackplaneError(error);
  }
  await turn.close();
  const run = await finishTurn(deps, turn, end, failure);
  if (end?.write != null && turn.stopped === null && deps.memories().length > 0) {
    deps.port.tryPublish("memory.write", { entry: end.write as unknown as JsonObject }, turn.to);
  }
  return run;
}
