/** Remembers which cards are open, because a card that is scrolled out of view is removed from the document. */
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
