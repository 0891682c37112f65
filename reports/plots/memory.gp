if (ARGC != 2) { print "usage: gnuplot -d -c memory.gp DATA.csv OUT.svg|OUT.png"; exit status 2 }

# Memory by kind: one lying bar per run, GiB on the fullest GPU, sizes written into the parts.
# Columns by name: series (0, 1, ...), label, kind, size_gib, low_gib, high_gib.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1.
stats ARG1 using (column("series")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
stats ARG1 using (column("high_gib")) name "GIB" nooutput
runs = int(SERIES_max) + 1

# Fixed width; the height grows with the number of bars only.
height = 160 + 72 * runs
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2

set label 1 "Memory by kind (GiB per GPU)" at screen 0.5, 1 - 26.0 / height center font title_font
set xrange [0 : GIB_max]
set yrange [runs - 0.55 : -0.62]
set border 1 lc rgb "#595959"
set xtics nomirror out tc rgb "#404040"
unset ytics
set grid xtics lc rgb "#d9d9d9" lt 1 lw 1
set style fill solid 1.0 border rgb "white"
set key at screen 0.5, 36.0 / height center center horizontal Left reverse samplen 1.2 width 1
set lmargin at screen 0.03
set rmargin at screen 0.965
set tmargin at screen 1 - 58.0 / height
set bmargin at screen 96.0 / height

half = 0.24 # of a bar's height; the run's name stands above the bar
of(kind, value) = strcol("kind") eq kind ? value : NaN
middle(kind) = of(kind, (column("low_gib") + column("high_gib")) / 2)
# A size is written only where it has room.
size(kind) = strcol("kind") eq kind && column("size_gib") > 0.045 * GIB_max \
             ? sprintf("%.1f", column("size_gib")) : ""

kinds = "weights kv_peak kv_unused other reserve free"
array titles[6] = ["weights", "KV in use at the peak", "KV never used", "activations, other", \
                   "reserve", "free"]
array fills[6] = ["#0072B2", "#D55E00", "#F2BE96", "#009E73", "#CC79A7", "#E4E4E4"]
array inks[6] = ["white", "white", "black", "white", "black", "black"]

plot for [k = 1:6] ARG1 \
       using (of(word(kinds, k), column("low_gib"))):(column("series")): \
             (column("low_gib")):(column("high_gib")): \
             (column("series") - half):(column("series") + half) \
       with boxxyerror lc rgb fills[k] title titles[k], \
     for [k = 1:6] ARG1 \
       using (middle(word(kinds, k))):(column("series")):(size(word(kinds, k))) \
       with labels tc rgb inks[k] notitle, \
     ARG1 using (of("weights", 0)):(column("series") - half - 0.15):(strcol("label")) \
       with labels left offset 0,0 tc rgb "black" notitle
