/** Which cards are open. A card that is scrolled out of view leaves the document, and is open again when it returns. */
import { createContext, useContext, useState } from "react";

export const OpenedContext = createContext<Set<string>>(new Set());

export function useOpened(key: string): [boolean, (opened: boolean) => void] {
  const all = useContext(OpenedContext);
  const [opened, setOpened] = useState(() => all.has(key));
  return [
    opened,
    (next) => {
      if (next) all.add(key);
      else all.delete(key);
      setOpened(next);
    },
  ];
}
