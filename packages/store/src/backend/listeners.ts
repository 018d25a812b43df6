/** A set of callbacks that learn that something was appended, without any details. */
export interface Listeners {
  add(listener: () => void): () => void;
  notify(): void;
}

/** Several notifications within one turn of the event loop reach a listener as one. */
export function createListeners(): Listeners {
  const listeners = new Set<() => void>();
  let scheduled = false;
  return {
    add(listener) {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    notify() {
      if (scheduled || listeners.size === 0) return;
      scheduled = true;
      setImmediate(() => {
        scheduled = false;
        for (const listener of listeners) listener();
      });
    },
  };
}
