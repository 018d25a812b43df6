/** Filters of a list, which are stored in the URL: a link or a reload shows the same list. */
import { useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";

/** Returns a function that changes parameters of the current page; undefined removes one. */
export function useSetFilters<F extends Record<string, string | undefined>>(): (changes: F) => void {
  const navigate = useNavigate();
  return useCallback(
    (changes) =>
      void navigate({
        to: ".",
        search: ((current: object) => ({ ...current, ...changes })) as never,
        replace: true,
      }),
    [navigate],
  );
}
