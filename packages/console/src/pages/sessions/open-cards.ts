/** Remembers which cards are open: a card that is scrolled out of view leaves the document and must return open. */
import { createContext, useContext, useState } from "react";

export const OpenCardsContext = createContext<Set<string>>(new Set());

export function useCardOpen(key: string): [boolean, (opened: boolean) => void] {
  const open_cards = useContext(OpenCardsContext);
  const [opened, setOpened] = useState(() => open_cards.has(key));
  return [
    opened,
    (next) => {
      if (next) open_cards.add(key);
      else open_cards.delete(key);
      setOpened(next);
    },
  ];
}
