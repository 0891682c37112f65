if (ARGC != 2) { print "usage: gnuplot -d -c sweep_pareto.gp DATA.csv OUT.svg|.png"; exit status 2 }

# What a GPU gives against what a user gets: output tokens per second of the one over those of the
# other. One panel per value across, one line per series; a ring marks what no other point of the
# panel beats in both. Columns by name: series (0, 1, ...), label, across_place, across,
# across_title, load, output_tok_s_user, output_tok_s_gpu, best (0, 1).
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names.
array names[64]
do for [i = 1:64] { names[i] = "" } # a series without rows has no line in the legend
array across[4096]
do for [i = 1:4096] { across[i] = "" } # nothing ran there: no panel
title_across = ""
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), \
                  across[int(column("across_place")) + 1] = strcol("across"), \
                  title_across = strcol("across_title"), \
                  column("series")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 63) { print "at most 64 series fit in one figure"; exit status 3 }
stats ARG1 using (column("across_place")) name "ACROSS" nooutput
stats ARG1 using (column("output_tok_s_user")) name "USER" nooutput
series = int(SERIES_max) + 1
panels = int(ACROSS_max) + 1 < 12 ? int(ACROSS_max) + 1 : 12 # the first twelve

# Fixed width; the height grows with the panels and the legend.
columns = panels < 3 ? panels : panels == 4 ? 2 : 3
rows = (panels + columns - 1) / columns
panel = columns == 1 ? 460 : columns == 2 ? 330 : 270
height = 100 + 24 * series + rows * panel
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  load_font = ",8"
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  load_font = ",11"
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
mark(i) = filled[(i - 1) % 8 + 1]
of(i, value) = int(column("series")) == i - 1 ? value : NaN
set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
x(pixels) = pixels / 1000.0
set xrange [0 : *]
set yrange [0 : *]
set offsets 0, graph 0.05, graph 0.08, 0
few = panels == 1 && USER_records <= 24 # room for the loads
set format x "%g"
set format y "%g"
unset key

set multiplot
set label 1 "Tokens per second: of a GPU against of a user" at screen 0.5, y(height - 28) center \
    font title_font
here(i, p, value) = int(column("across_place")) == p - 1 ? of(i, value) : NaN
do for [p = 1:panels] {
  if (across[p] eq "") { continue }
  left = ((p - 1) % columns) * 1000.0 / columns
  top = height - 50 - ((p - 1) / columns) * panel
  set lmargin at screen x(left + 70)
  set rmargin at screen x(left + 1000.0 / columns - 18)
  set tmargin at screen y(top - 36)
  set bmargin at screen y(top - panel + 62)
  set label 2 title_across eq "none" ? "" : title_across." ".across[p] at graph 0, graph 1 left \
      offset 0,0.8
  set ylabel (p - 1) % columns == 0 ? "of a GPU" : "" offset 1.2,0
  set xlabel "of a user" offset 0,0.3
  plot for [i = 1:series] ARG1 using (here(i, p, column("output_tok_s_user"))): \
         (column("output_tok_s_gpu")) with linespoints lw 1.6 pt mark(i) ps 0.7 lc rgb colour(i) \
         dt dashes(i), \
       for [i = 1:series] ARG1 using (column("best") == 1 ? \
         here(i, p, column("output_tok_s_user")) : NaN):(column("output_tok_s_gpu")) \
         with points pt 6 ps 1.7 lw 1.3 lc rgb "#202020", \
       for [k = 1:few] ARG1 using (column("output_tok_s_user")):(column("output_tok_s_gpu")): \
         (strcol("load")) with labels left offset 0.8,0.5 font load_font tc rgb "#404040"
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
unset ylabel
unset grid
set xrange [0:1]
set yrange [0:1]
set key at screen 0.062, y(42 + 24 * series) left top vertical Left reverse maxrows series + 1 \
    samplen 2 spacing 1.1
plot for [i = 1:series] NaN with linespoints lw 1.6 pt mark(i) ps 0.7 lc rgb colour(i) \
       dt dashes(i) title names[i], \
     NaN with points pt 6 ps 1.7 lw 1.3 lc rgb "#202020" title "beaten by none in both"
unset multiplot
