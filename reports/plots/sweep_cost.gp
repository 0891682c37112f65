if (ARGC != 2) { print "usage: gnuplot -d -c sweep_cost.gp DATA.csv OUT.svg|.png"; exit status 2 }

# Price of a million output tokens over the load: one panel per value across, one line per series; a
# hollow dot where more memory is wanted than there is. Columns by name: series (0, 1, ...), label,
# across_place, across, across_title, load_amount, load_title, usd_per_mtok, oom.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names.
array names[64]
do for [i = 1:64] { names[i] = "" } # a series without rows has no line in the legend
array across[4096]
do for [i = 1:4096] { across[i] = "" } # nothing ran there: no panel
title_across = ""
title_load = ""
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), \
                  across[int(column("across_place")) + 1] = strcol("across"), \
                  title_across = strcol("across_title"), title_load = strcol("load_title"), \
                  column("series")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 63) { print "at most 64 series fit in one figure"; exit status 3 }
stats ARG1 using (column("across_place")) name "ACROSS" nooutput
stats ARG1 using (column("load_amount")) name "LOAD" nooutput
stats ARG1 using (column("usd_per_mtok")) name "USD" nooutput
series = int(SERIES_max) + 1
panels = int(ACROSS_max) + 1 < 12 ? int(ACROSS_max) + 1 : 12 # the first twelve

# Fixed width; the height grows with the panels and the legend.
columns = panels < 3 ? panels : panels == 4 ? 2 : 3
rows = (panels + columns - 1) / columns
panel = columns == 1 ? 400 : columns == 2 ? 330 : 270
height = 100 + 24 * series + rows * panel
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

array colours[8] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", \
                    "#8C6D00"]
colour(i) = colours[(i - 1) % 8 + 1]
dashes(i) = (i - 1) / 8 + 1
array filled[8] = [7, 5, 9, 13, 7, 5, 9, 13] # marks apart as well as colours
array hollow[8] = [6, 4, 8, 12, 6, 4, 8, 12]
mark(i) = filled[(i - 1) % 8 + 1]
ring(i) = hollow[(i - 1) % 8 + 1]
of(i, value) = int(column("series")) == i - 1 ? value : NaN
set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
x(pixels) = pixels / 1000.0
wide_load = LOAD_min > 0 && LOAD_max > 8 * LOAD_min
wide_usd = USD_min > 0 && USD_max > 8 * USD_min
if (wide_load) {
  set logscale x 2
  set xrange [LOAD_min / 1.15 : LOAD_max * 1.15]
} else {
  set xrange [0 : LOAD_max > 0 ? LOAD_max * 1.05 : 1]
}
if (wide_usd) {
  set logscale y 2
  set yrange [USD_min / 1.3 : USD_max * 1.3]
} else {
  set yrange [0 : USD_max > 0 ? USD_max * 1.1 : 1]
}
set format x "%g"
set format y "%g"
unset key

set multiplot
set label 1 "What a million output tokens cost (USD)" at screen 0.5, y(height - 28) center \
    font title_font
here(i, p, value) = int(column("across_place")) == p - 1 ? of(i, value) : NaN
do for [p = 1:panels] {
  if (across[p] eq "") { continue }
  left = ((p - 1) % columns) * 1000.0 / columns
  top = height - 50 - ((p - 1) / columns) * panel
  set lmargin at screen x(left + 62)
  set rmargin at screen x(left + 1000.0 / columns - 18)
  set tmargin at screen y(top - 36)
  set bmargin at screen y(top - panel + 62)
  set label 2 title_across eq "none" ? "" : title_across." ".across[p] at graph 0, graph 1 left \
      offset 0,0.8
  set xlabel title_load offset 0,0.3
  plot for [i = 1:series] ARG1 using (column("load_amount")):(here(i, p, column("usd_per_mtok"))) \
         with lines lw 1.8 lc rgb colour(i) dt dashes(i), \
       for [i = 1:series] ARG1 using (column("load_amount")): \
         (column("oom") == 0 ? here(i, p, column("usd_per_mtok")) : NaN) \
         with points pt mark(i) ps 0.7 lc rgb colour(i), \
       for [i = 1:series] ARG1 using (column("load_amount")): \
         (column("oom") == 1 ? here(i, p, column("usd_per_mtok")) : NaN) \
         with points pt ring(i) ps 0.9 lc rgb colour(i)
  unset label 1
}

# The legend belongs to all panels: an empty plot below them carries it.
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen y(50 + 24 * series)
set bmargin at screen 0
unset logscale
unset border
unset tics
unset label
unset xlabel
unset grid
set xrange [0:1]
set yrange [0:1]
set key at screen 0.062, y(42 + 24 * series) left top vertical Left reverse maxrows series + 1 \
    samplen 2 spacing 1.1
plot for [i = 1:series] NaN with linespoints lw 1.8 pt mark(i) ps 0.7 lc rgb colour(i) \
       dt dashes(i) title names[i], \
     NaN with points pt 6 ps 0.9 lc rgb "#595959" title "wants more memory than there is"
unset multiplot
