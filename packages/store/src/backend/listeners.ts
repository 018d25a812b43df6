export interface Listeners {
  add(listener: () => void): () => void;
  call(): void;
}

/** Several calls of one turn reach a listener as one. */
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
    call() {
      if (scheduled || listeners.size === 0) return;
      scheduled = true;
      setImmediate(() => {
        scheduled = false;
        for (const listener of listeners) listener();
      });
    },
  };
}
