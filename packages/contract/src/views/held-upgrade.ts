import type { Binding } from "../schema/index.ts";

/** The flags of `plugin upgrade` that repeat the request of a held upgrade, each with a leading space. */
export function formatHeldFlags({ percent, trial_seconds }: NonNullable<Binding["held_upgrade"]>): string {
  return [
    ...(percent === undefined ? [] : [` --percent ${percent}`]),
    ...(trial_seconds === undefined ? [] : [` --trial ${trial_seconds}`]),
  ].join("");
}
