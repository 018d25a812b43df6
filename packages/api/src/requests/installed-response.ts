import type { Installation } from "@backplane/contract";

/** 201 if the installation stored or moved anything, 200 if everything was already in place. */
export function installedResponse(done: Installation): { status: number; json: Installation } {
  const changed =
    done.packages.some(({ created }) => created) ||
    done.bindings.some(({ change }) => change !== "unchanged");
  return { status: changed ? 201 : 200, json: done };
}
