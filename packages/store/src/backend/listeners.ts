/** Callbacks that are called after something was appended, without any details. */
export interface Listeners {
  add(listener: () => void): () => void;
  notify(): void;
}

/** A listener is called once for all notifications within one turn of the event loop. */
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
