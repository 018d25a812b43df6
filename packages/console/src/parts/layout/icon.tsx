/** The icons of the console: 24 × 24 outlines, part of the script so that no request is needed. */

const PATHS = {
  home: "M3.5 11 12 4l8.5 7M6 9.5V20h12V9.5M10 20v-5.5h4V20",
  market: "M4 9.5 5.5 4h13L20 9.5M4 9.5V20h16V9.5M4 9.5h16M9 20v-6h6v6",
  plugin: "M9 3.5V8M15 3.5V8M6 8h12v4a6 6 0 0 1-12 0V8ZM12 18v3",
  binding: "M9.5 14.5l5-5M8 11l-2.5 2.5a3.5 3.5 0 0 0 5 5L13 16M16 13l2.5-2.5a3.5 3.5 0 0 0-5-5L11 8",
  secret: "M14.5 9.5a4.5 4.5 0 1 1-3.2 7.7L4 20.5v-3M14.5 9.5 20 4M17 7l2.5 2.5",
  approval: "M12 3.5 19 6v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6l7-2.5ZM9 12l2.2 2.2L15.5 10",
  session: "M4 5h16v11H10l-4.5 4v-4H4V5ZM8 9h8M8 12h5",
  send: "M12 20V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M7 7h10v10H7V7Z",
  attach:
    "M19.5 11.5l-7.7 7.7a4.6 4.6 0 0 1-6.5-6.5l8-8a3.1 3.1 0 0 1 4.4 4.4l-7.8 7.8a1.5 1.5 0 0 1-2.2-2.2l7-7",
  fork: "M7 4.5v15M7 12c0-3.5 10-1.5 10-7.5M14.5 7 17 4.5 19.5 7",
  pin: "M9 4h6l-.7 6 3.2 3.5h-11L9.7 10 9 4ZM12 13.5V20",
  edit: "M4.5 19.5l1-4.2L15.8 5a1.8 1.8 0 0 1 2.6 0l.6.6a1.8 1.8 0 0 1 0 2.6L8.7 18.5l-4.2 1ZM14 7l3 3",
  file: "M6.5 3.5h7.5l4 4v13H6.5v-17ZM13.5 3.5V8H18",
  more: "M5.5 11.25a.75.75 0 1 1 0 1.5.75.75 0 0 1 0-1.5ZM12 11.25a.75.75 0 1 1 0 1.5.75.75 0 0 1 0-1.5ZM18.5 11.25a.75.75 0 1 1 0 1.5.75.75 0 0 1 0-1.5Z",
  compact: "M5 4.5h14M5 19.5h14M12 7v3.5M9.5 8.5 12 11l2.5-2.5M12 17v-3.5M9.5 15.5 12 13l2.5 2.5",
  invocation: "M4 6h9M4 12h13M4 18h6M16 3.5 19 6l-3 2.5M14 18h6",
  event: "M13 3 5 13.5h6L10.5 21 19 10h-6l.5-7Z",
  health: "M3 12h4l2.5-6 4.5 12 2.5-6H21",
  audit: "M6 3.5h9L19 7.5v13H6v-17ZM14.5 3.5V8H19M9 12h7M9 15.5h7",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  explorer: "M8.5 8 4 12l4.5 4M15.5 8 20 12l-4.5 4M13.5 5l-3 14",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13ZM15.5 15.5 20.5 20.5",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8ZM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5Z",
  system: "M3.5 5h17v11h-17V5ZM9 20h6M12 16v4",
  help: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17ZM9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M12 16.5v.2",
  menu: "M4 7h16M4 12h16M4 17h16",
  copy: "M9 9h11v11H9V9ZM15 9V4H4v11h5",
  check: "M5 12.5 10 17.5 19.5 7",
  cross: "M6 6l12 12M18 6 6 18",
  alert: "M12 4 21 19.5H3L12 4ZM12 10v4.5M12 17v.2",
  octagon: "M8.5 3.5h7l5 5v7l-5 5h-7l-5-5v-7l5-5ZM12 8v5M12 16v.2",
  question:
    "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17ZM9.8 9.6a2.3 2.3 0 1 1 3.2 2.1c-.7.4-1 .9-1 1.7M12 16.2v.2",
  shield: "M12 3.5 19 6v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6l7-2.5Z",
  clock: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17ZM12 7.5V12l3 2",
  refresh: "M19.5 5v5h-5M4.5 19v-5h5M19 10a7.5 7.5 0 0 0-13.5-2M5 14a7.5 7.5 0 0 0 13.5 2",
  rerun: "M4.5 12a7.5 7.5 0 1 1 2.2 5.3M4.5 19v-4.5H9",
  terminal: "M4 5h16v14H4V5ZM7.5 9.5 10 12l-2.5 2.5M12 15h4.5",
  external: "M13 4h7v7M20 4 11 13M18 14v6H4V6h6",
  signOut: "M10 4H4.5v16H10M15 8l4 4-4 4M19 12H9.5",
  chevron: "M9 5.5 15.5 12 9 18.5",
  back: "M15 5.5 8.5 12 15 18.5",
  up: "M5.5 15 12 8.5 18.5 15",
  down: "M5.5 9 12 15.5 18.5 9",
  dot: "M12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6Z",
  plus: "M12 5v14M5 12h14",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13M10.5 10.5v6M13.5 10.5v6",
  pause: "M8.5 5.5v13M15.5 5.5v13",
  play: "M7 5l12 7-12 7V5Z",
  download: "M12 4v11M7.5 11 12 15.5 16.5 11M4.5 20h15",
} as const;

export type IconName = keyof typeof PATHS;

/** Decorative: a word beside the icon has the same meaning, or its button has a label. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      aria-hidden="true"
      focusable="false"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.75}
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
