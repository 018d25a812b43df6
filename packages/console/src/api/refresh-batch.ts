/** Collects the nouns of a burst of events, so that each list is loaded again once. */
import type { QueryClient } from "@tanstack/react-query";

const BATCH_MS = 60;
/** Bounds the wait for running mutations: some of them take minutes, such as an installation. */
const MAX_WAIT_MS = 2_000;

export interface RefreshBatch {
  add: (noun: string) => void;
  stop: () => void;
}

export function createRefreshBatch(
  queries: Pick<QueryClient, "invalidateQueries" | "isMutating">,
): RefreshBatch {
  const outdated = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let waited = 0;

  function refresh(): void {
    // An event can arrive before the response to the request that caused it. The console leaves the page of a deleted
    // object after the response; a refresh before that would load an object that no longer exists.
    if (queries.isMutating() > 0 && waited < MAX_WAIT_MS) {
      waited += BATCH_MS;
      timer = setTimeout(refresh, BATCH_MS);
      return;
    }
    timer = undefined;
    waited = 0;
    for (const noun of outdated) void queries.invalidateQueries({ queryKey: [noun] });
    outdated.clear();
  }

  return {
    add(noun) {
      outdated.add(noun);
      timer ??= setTimeout(refresh, BATCH_MS);
    },
    stop: () => clearTimeout(timer),
  };
}
