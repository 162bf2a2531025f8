/** Paths on a grid of 16 by 16, drawn with lines of the text's colour. */
const paths = {
  alert: "M8 2 1.5 13.500h13L8 2Zm0 4.500v3.200m0 2v.1",
  back: "M10 3 5 8l5 5",
  building: "M8 2.500v3m0 5v3M2.500 8h3m5 0h3M4.100 4.100l2.100 2.100m3.600 3.600 2.100 2.100m0-7.800L9.800 6.200M6.200 9.800l-2.100 2.100",
  check: "m3 8.500 3.300 3.300L13 4.800",
  chevron: "m6 3 5 5-5 5",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-9.200V8l2.200 1.600",
  copy: "M6 5.500h7v8H6zM10 5.500V2.500H3v8h3",
  cross: "m4 4 8 8m0-8-8 8",
  download: "M8 2v8.500m0 0L4.500 7M8 10.500 11.500 7M2.500 13.500h11",
  drain: "M8 2.500v8m0 0L4.500 7.200M8 10.500l3.500-3.300M3 13.500h10",
  empty: "M3 3h2m2 0h2m2 0h2v2m0 2v2m0 2v2h-2m-2 0H7m-2 0H3v-2m0-2V7m0-2V3",
  job: "M2.500 5h11v8h-11zM6 5V2.800h4V5M2.500 8.500h4m3 0h4M6.500 7.500h3v2h-3z",
  key: "M10.500 8.500a3 3 0 1 0-2.900-3.700L2.500 10v3h3v-2h2V9.300l.6-.9a3 3 0 0 0 2.400.1Zm.4-3.400v.1",
  list: "M5.500 4H14M5.500 8H14M5.500 12H14M2.200 4h.1m-.1 4h.1m-.1 4h.1",
  menu: "M2 4.500h12M2 8h12M2 11.500h12",
  moon: "M13.500 9.600A6 6 0 0 1 6.400 2.500a6 6 0 1 0 7.100 7.100Z",
  pause: "M5.500 3v10m5-10v10",
  person: "M8 7.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Zm-5 6a5 5 0 0 1 10 0",
  play: "M5 3v10l8-5-8-5Z",
  plus: "M8 3v10M3 8h10",
  pools: "M2.500 9v4m3.700-7v7m3.700-10v10m3.600-8v8",
  refresh: "M13 8a5 5 0 1 1-1.500-3.600M13 2.500v2.700h-2.700",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.600-1.400L14 14",
  server: "M2.500 3h11v4h-11zm0 6h11v4h-11zM5 5h.1M5 11h.1",
  stack: "M8 2 2 5l6 3 6-3-6-3ZM2 8l6 3 6-3M2 11l6 3 6-3",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-9.500v1.200m0 10.600v1.200M1.500 8h1.200m10.600 0h1.200M3.400 3.400l.9.9m7.400 7.400.9.9m0-9.200-.9.9M4.300 11.700l-.9.9",
  system: "M2 3h12v8H2zm4 10.500h4M8 11v2.500",
  template: "M3 2h7l3 3v9H3zM9.500 2v3.500H13M5.500 9h5m-5 2.500h3",
  trash: "M3 4.500h10M6 4.500v-2h4v2m-5.500 0 .6 9h5.800l.6-9",
} as const;

export type IconName = keyof typeof paths;

/** Icon goes beside words that say the same; it is nothing to a screen reader. */
export function Icon({ name, className = "size-4" }: { name: IconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 16 16"
      className={`shrink-0 ${className}`}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  );
}
