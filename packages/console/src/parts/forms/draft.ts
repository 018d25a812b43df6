/**
 * Unsaved changes to a stored value. A change by someone else does not discard them; it is reported as a conflict, so
 * that the person decides which value remains.
 */
import { useState } from "react";

export interface EditState<T> {
  /** The stored value when the person began to edit. */
  base: T;
  /** The form shows this: the unsaved value, or the stored one. */
  value: T;
  /** Whether the value differs from the stored one. */
  changed: boolean;
  /** Whether the stored value has changed since the person began to edit, and differs from the edited value. */
  conflict: boolean;
}

export interface Draft<T> extends EditState<T> {
  edit: (value: T) => void;
  /** Shows the stored value again. */
  discard: () => void;
}

/** An unsaved value, and the stored value when the person began to edit. */
export interface UnsavedEdit<T> {
  base: T;
  value: T;
}

export function describeDraft<T>(stored: T, edit: UnsavedEdit<T> | null): EditState<T> {
  if (edit === null) return { base: stored, value: stored, changed: false, conflict: false };
  const changed = !sameJson(edit.value, stored);
  return { ...edit, changed, conflict: changed && !sameJson(edit.base, stored) };
}

export function useUnsavedEdit<T>(stored: T): Draft<T> {
  const [unsaved, setUnsaved] = useState<UnsavedEdit<T> | null>(null);
  return {
    ...describeDraft(stored, unsaved),
    edit: (value) => setUnsaved((before) => ({ base: before === null ? stored : before.base, value })),
    discard: () => setUnsaved(null),
  };
}

function sameJson(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
